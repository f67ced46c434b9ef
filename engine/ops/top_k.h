// The largest of many numbers.
#ifndef HEED_ENGINE_OPS_TOP_K_H_
#define HEED_ENGINE_OPS_TOP_K_H_

#include <cstdint>

#include "engine/base/memory.h"

namespace heed {

// A number and where it stood.
struct Ranked {
  float value = 0;
  int32_t index = 0;
};

// The k largest of n numbers, the largest first, of equal ones the lower index first. NaN is less than all,
// and its value is then -infinity. 1 <= k <= n. Takes no scratch when it is done.
void TopK(const float* x, int64_t n, int64_t k, Scratch& scratch, Ranked* best);

// Numbers that vectors may write beyond the k.
inline constexpr int64_t kTopKRoom = 16;

// Closed form: the scratch that it takes.
constexpr int64_t TopKScratchBytes(int64_t k) {
  return 2 * Scratch::Piece((k + kTopKRoom) * static_cast<int64_t>(sizeof(float)));
}

}  // namespace heed

#endif  // HEED_ENGINE_OPS_TOP_K_H_
