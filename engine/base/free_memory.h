// How much memory is ours to take.
#ifndef HEED_ENGINE_BASE_FREE_MEMORY_H_
#define HEED_ENGINE_BASE_FREE_MEMORY_H_

#include <cstdint>
#include <string>

namespace heed {

// In bytes, now: the least of what the machine has available and what the limit of each control group (v2 or
// v1) leaves beside its use. What a group holds of files that nobody used lately is not use: the kernel drops
// it first. INT64_MAX where nothing of it can be read. `root` is prepended to /proc and /sys, for tests.
int64_t FreeMemory(const std::string& root = "");

}  // namespace heed

#endif  // HEED_ENGINE_BASE_FREE_MEMORY_H_
