// What stands around a recurrence (recurrence.h), row by row: a causal convolution, time steps and what fades
// with them, gates. Arithmetic is f32, as exact as f32 is; rows are f32 or bf16 where `Rows` stands.
#ifndef HEED_ENGINE_OPS_GATES_H_
#define HEED_ENGINE_OPS_GATES_H_

#include <cstdint>

#include "engine/ops/gemm.h"
#include "engine/tensor/tensor.h"

namespace heed {

// y[t] = activation(bias + sum over c of kernel[c] * x[t + c]), number by number: x has the rows of y and,
// before them, as many as the kernel has rows, less one. kNone or kSilu.
void ConvolveCausal(Matrix<const float> x, Matrix<const float> kernel, const float* bias,
                    Activation activation, Matrix<float> y);

// y = 1 / (1 + exp(-x))
void Sigmoid(const Rows& x, Matrix<float> y);

// y = log(1 + exp(x + bias)), and no less than `least`, no more than `most`.
struct StepLimits {
  float least = 0, most = 3e38f;
};
void TimeSteps(const Rows& x, const float* bias, const StepLimits& limits, Matrix<float> y);

// y[r, c] = exp(rates[c] x[r, c]), at most 1. y may be x.
void Fadings(Matrix<const float> x, const float* rates, Matrix<float> y);

// y[r, c] = exp(bound sigmoid(scales[c] (x[r, c] + bias[c]))), from exp(bound) to 1; bound is no more than 0.
void BoundedFadings(const Rows& x, const float* scales, const float* bias, float bound, Matrix<float> y);

// y = x activation(gate). y may be x.
void GateRows(Activation activation, const Rows& gate, Matrix<const float> x, const Rows& y);

// Of each row of x as many neighbours as there are columns to each column of the gate:
// x *= 1 / (1 + exp(-gate))
void MultiplyBySigmoid(const Rows& gate, const Rows& x);
// x *= log(1 + exp(gate))
void MultiplyBySoftplus(const Rows& gate, const Rows& x);

// x *= sqrt(1 - fadings^2): what is added to a state is as large as what fades of it. fadings from 0 to 1.
void ScaleToWhatFades(Matrix<const float> fadings, Matrix<float> x);

// x[r] *= factor / sqrt(|x[r]|^2 + eps)
void ScaleToUnit(float factor, float eps, Matrix<float> x);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_GATES_H_
