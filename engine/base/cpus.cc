// How many CPUs are ours: the affinity mask and the cgroup's quota, read as the kernel presents them.
#include <sched.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/cgroup.h"
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

}  // namespace

int QuotaCpus(const std::string& root) {
  const CgroupFolders groups = CgroupsOf(root, "cpu");
  int least = INT_MAX;
  for (const std::string& folder : groups.v2) least = std::min(least, QuotaV2(folder));
  for (const std::string& folder : groups.v1) least = std::min(least, QuotaV1(folder));
  return least;
}

int AvailableCpus() { return std::min(AffinityCpus(), QuotaCpus("")); }

}  // namespace heed
