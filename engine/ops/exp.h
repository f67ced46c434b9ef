// exp in double, for distributions over a whole vocabulary.
#ifndef HEED_ENGINE_OPS_EXP_H_
#define HEED_ENGINE_OPS_EXP_H_

#include <cstdint>

namespace heed {

// x[i] = exp(x[i]), within one unit in the last place for x[i] <= 0; exp(0) is exactly 1.
void Exp(double* x, int64_t n);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_EXP_H_
