// Operations on rows, written in Highway: each row on its own, in a fixed order of sums, so that a row's
// result never depends on its neighbours. Rows may be f32 or bf16 where `Rows` stands; arithmetic is f32.
#ifndef HEED_ENGINE_OPS_ROWS_H_
#define HEED_ENGINE_OPS_ROWS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/ops/gemm.h"
#include "engine/tensor/tensor.h"

namespace heed {

// The vector instructions in use, for logs and benches: "AVX3_ZEN4". HEED_MAX_SIMD=avx2|avx512 in the
// environment limits them, for tests.
std::string_view RowKernelTarget();

// y = (x - mean) / sqrt(variance + eps) * weight + bias (Ba et al. 2016). `bias` may be null. y may be x.
void LayerNorm(Matrix<const float> x, const float* weight, const float* bias, float eps, const Rows& y);
// y = x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019)
void RmsNorm(Matrix<const float> x, const float* weight, float eps, const Rows& y);
// The same in place.
void LayerNorm(const Rows& x, const float* weight, const float* bias, float eps);
void RmsNorm(const Rows& x, const float* weight, float eps);

void Activate(Activation activation, const Rows& x);  // in place

void Convert(const Rows& from, const Rows& to);    // f32 <-> bf16, or a copy
void Add(Matrix<const float> x, Matrix<float> y);  // y += x
void Scale(float factor, Matrix<float> x);         // x *= factor
// x = cap tanh(factor x), error 1e-6 of it; NaN stays.
void SoftCap(float factor, float cap, Matrix<float> x);
// In place: to [-limit, limit]; NaN stays.
void ClampTo(float limit, const Rows& x);
// y = y_share y + x_share x; y f32 or bf16
void AddShares(float x_share, Matrix<const float> x, float y_share, const Rows& y);

// Rotary positions (Su et al. 2021): turns the first `dims` numbers of each head of row r, in pairs, by the
// angle position * frequencies[t], and multiplies them by `factor`. There are dims / 2 frequencies. "half":
// the pair t is (x[t], x[t + dims/2]); interleaved: (x[2t], x[2t+1]). The angles of a position are computed
// in double and kept in a table that grows on demand; thread-safe.
class RotaryAngles;
class Rotary {
 public:
  Rotary(const std::vector<double>& frequencies, bool interleaved, double factor = 1);
  // heads: x has cols = heads * head_dim; positions[r] is row r's, >= 0.
  void Apply(const Rows& x, int heads, std::span<const int64_t> positions) const;
  int dims() const { return dims_; }

 private:
  int dims_;
  bool interleaved_;
  std::shared_ptr<RotaryAngles> angles_;  // one table for all that have the same frequencies and factor
};
// theta^(-2t/dims) for t < dims / 2
std::vector<double> RotaryFrequencies(int64_t dims, double theta);

// The largest of n numbers' first index; n >= 1. NaN counts as smaller than all.
int64_t ArgMax(const float* x, int64_t n);
// log(sum(exp(x))), in double
double LogSumExp(const float* x, int64_t n);
bool AllFinite(const float* x, int64_t n);
// x / sqrt(sum(x^2)), the sum in double; of zeros, zeros.
void ScaleToLengthOne(std::span<float> x);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_ROWS_H_
