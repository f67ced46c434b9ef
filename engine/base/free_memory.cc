#include "engine/base/free_memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>

#include "engine/base/cgroup.h"

namespace heed {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Of a file that holds one number; none for "max", and where there is no file.
std::optional<int64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  int64_t number;
  if (file >> number) return number;
  return std::nullopt;
}

// The number after a word, which begins a line.
std::optional<int64_t> NumberAfter(const std::string& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(word)) return std::strtoll(line.c_str() + word.size(), nullptr, 10);
  }
  return std::nullopt;
}

int64_t Left(const std::string& folder, const char* limit_file, const char* usage_file,
             const std::string& idle) {
  const auto limit = NumberIn(folder + limit_file), usage = NumberIn(folder + usage_file);
  if (!limit || !usage) return kNoLimit;
  const int64_t used = *usage - std::min(*usage, NumberAfter(folder + "/memory.stat", idle).value_or(0));
  return *limit - std::min(*limit, used);
}

}  // namespace

int64_t FreeMemory(const std::string& root) {
  const auto available = NumberAfter(root + "/proc/meminfo", "MemAvailable:");
  int64_t least = available ? *available * 1024 : kNoLimit;
  const CgroupFolders groups = CgroupsOf(root, "memory");
  for (const std::string& folder : groups.v2)
    least = std::min(least, Left(folder, "/memory.max", "/memory.current", "inactive_file "));
  for (const std::string& folder : groups.v1) {
    least = std::min(
        least, Left(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file "));
  }
  return least;
}

}  // namespace heed
