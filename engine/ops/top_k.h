// The largest of many numbers.
#ifndef HEED_ENGINE_OPS_TOP_K_H_
#define HEED_ENGINE_OPS_TOP_K_H_

#include <cstdint>

namespace heed {

// A number and where it stood.
struct Ranked {
  float value = 0;
  int32_t index = 0;
};

// The k largest of n numbers, the largest first, of equal ones the lower index first. NaN counts as
// -infinity. 1 <= k <= n. Work: n, and log k for each number that is among the k largest so far.
void TopK(const float* x, int64_t n, int64_t k, Ranked* best);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_TOP_K_H_
