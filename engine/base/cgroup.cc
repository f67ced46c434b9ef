#include "engine/base/cgroup.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_split.h"
#include "engine/base/status.h"

namespace heed {
namespace {

void AddPath(const std::string& mount, std::string path, std::vector<std::string>& folders) {
  for (;; path.resize(path.rfind('/'))) {
    folders.push_back(mount + path);
    if (path.find('/') == std::string::npos) return;
  }
}

}  // namespace

CgroupFolders CgroupsOf(const std::string& root, std::string_view controller) {
  CgroupFolders found;
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "0::/a/b" is v2, "4:cpu,cpuacct:/a/b" v1
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::string path = fields[2] == "/" ? "" : fields[2];
    if (fields[1].empty()) {
      AddPath(mounts, path, found.v2);
      AddPath(mounts + "/unified", path, found.v2);
    }
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (std::ranges::find(controllers, controller) != controllers.end())
      AddPath(Cat(mounts, "/", fields[1]), path, found.v1);
  }
  return found;
}

}  // namespace heed
