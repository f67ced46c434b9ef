// A row of scores from two short factors (Synthesizer's factorized dense form).
#ifndef HEED_ENGINE_OPS_OUTER_H_
#define HEED_ENGINE_OPS_OUTER_H_

#include <cstdint>

namespace heed {

// y[j - begin] += a[j mod n] c[j div n] for j in [begin, end); a has n numbers.
void AddOuter(const float* a, int64_t n, const float* c, int64_t begin, int64_t end, float* y);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_OUTER_H_
