// How many CPUs are ours: the affinity mask and the cgroup's quota, read as the kernel presents them.
#include <sched.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/base/threads.h"

namespace heed {
namespace {

int AffinityCpus() {
  for (int possible = 1024; possible <= 1 << 20; possible *= 2) {
    std::vector<cpu_set_t> mask(CPU_ALLOC_SIZE(possible) / sizeof(cpu_set_t));
    const size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) == 0) return std::max(1, CPU_COUNT_S(bytes, mask.data()));
  }
  return 1;
}

int RoundedUp(double quota, double period) {
  if (quota <= 0 || period <= 0) return INT_MAX;
  return static_cast<int>(std::clamp(std::ceil(quota / period), 1.0, 1e6));
}

// "max 100000" or "150000 100000"
int QuotaV2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota, period;
  return file >> quota >> period ? RoundedUp(quota, period) : INT_MAX;
}

int QuotaV1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us"), period_file(folder + "/cpu.cfs_period_us");
  double quota, period;
  return quota_file >> quota && period_file >> period ? RoundedUp(quota, period) : INT_MAX;
}

// The least quota of a cgroup and all above it. Inside a container the path may be the host's, of which only
// the root is to be seen; folders that are not there set no quota.
int LeastOnPath(const std::string& mount, std::string path, int (*quota)(const std::string&)) {
  int least = INT_MAX;
  for (;; path.resize(path.rfind('/'))) {
    least = std::min(least, quota(mount + path));
    if (path.find('/') == std::string::npos) return least;
  }
}

}  // namespace

int QuotaCpus(const std::string& root) {
  int least = INT_MAX;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "0::/a/b" is v2, "4:cpu,cpuacct:/a/b" v1
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::string path = fields[2] == "/" ? "" : fields[2], mounts = root + "/sys/fs/cgroup";
    if (fields[1].empty()) {
      least = std::min(
          {least, LeastOnPath(mounts, path, QuotaV2), LeastOnPath(mounts + "/unified", path, QuotaV2)});
    }
    for (absl::string_view controller : absl::StrSplit(fields[1], ',')) {
      if (controller == "cpu") least = std::min(least, LeastOnPath(mounts + "/" + fields[1], path, QuotaV1));
    }
  }
  return least;
}

int AvailableCpus() { return std::min(AffinityCpus(), QuotaCpus("")); }

}  // namespace heed
