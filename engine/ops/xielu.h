// xIELU, an activation with learned numbers (Huang and Schlag 2025): grows as a square above 0, and as a line
// less an exponential below.
#ifndef HEED_ENGINE_OPS_XIELU_H_
#define HEED_ENGINE_OPS_XIELU_H_

#include "engine/tensor/tensor.h"

namespace heed {

struct XieluNumbers {
  float above = 0, below = 0;  // a, c
  float slope = 0.5f;          // b
  float most = -1e-6f;         // e
};

// y = a x^2 + b x above 0, else c (exp(min(x, e)) - 1 - x) + b x; error 1e-7 (|a| + |c|) (1 + |x| + x^2). y
// is f32 or bf16, and may be x. NaN stays.
void Xielu(const XieluNumbers& of, Matrix<const float> x, const Rows& y);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_XIELU_H_
