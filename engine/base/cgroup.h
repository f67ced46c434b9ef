// The control groups of this process, as the kernel presents them: where a container's limits stand.
#ifndef HEED_ENGINE_BASE_CGROUP_H_
#define HEED_ENGINE_BASE_CGROUP_H_

#include <string>
#include <string_view>
#include <vector>

namespace heed {

// The folders of this process's group and of all above it, since each may limit. Inside a container the path
// may be the host's, of which only the root is to be seen: some folders may not exist.
struct CgroupFolders {
  std::vector<std::string> v2;
  std::vector<std::string> v1;  // of the controller
};

// `root` is prepended to /proc and /sys, for tests.
CgroupFolders CgroupsOf(const std::string& root, std::string_view controller);

}  // namespace heed

#endif  // HEED_ENGINE_BASE_CGROUP_H_
