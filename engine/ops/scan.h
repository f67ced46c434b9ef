// The row-wise half of a linear scan (engine/attention/linear_scan.h): feature maps, the causal cut of a
// block of weights, the sums beside the products, and one row at a time by rank-1 updates.
#ifndef HEED_ENGINE_OPS_SCAN_H_
#define HEED_ENGINE_OPS_SCAN_H_

#include <cstdint>

#include "engine/tensor/tensor.h"

namespace heed {

// y = elu(x) + 1: x + 1 above 0, exp(x) below. Each f32 or bf16; y may be x.
void EluPlusOne(const Rows& x, const Rows& y);

// sums[r] = factor |x[r]|^2
void SquaredLengths(const Rows& x, float factor, float* sums);

// Random features (Performer, Choromanski et al. 2021) of rows of which the projections, [rows, features],
// and half the squared length are given. Softmax: y[r, f] = exp(p[r, f] - halves[r] - e) + floor exp(-e),
// with e = exponents[r] the largest of its exponents and log(floor), so that no feature is above 2. Relu:
// max(p, 0) + floor.
void SoftmaxFeatures(Matrix<const float> projections, const float* halves, float floor, const Rows& y,
                     float* exponents);
void ReluFeatures(Matrix<const float> projections, float floor, const Rows& y);

// x[i] = exp(x[i]), at most 1.
void ExpAtMostOne(float* x, int64_t n);
// y[r] = x[r] * factors[r]; each f32 or bf16; y may be x.
void ScaleRows(const Rows& x, const float* factors, const Rows& y);
// weights[r, c] *= exp(columns[c] - rows[r]), at most 1, up to the column `first` + r; those after it are
// anything then.
void ScaleByExponents(Matrix<float> weights, int64_t first, const float* columns, const float* rows);

// Row r keeps its weights up to the column `first` + r and gets zeros after it; f32 (`kept` may be the
// weights' own memory) or bf16. sums[r] += the kept, as `kept` holds them. Columns are a multiple of 32.
void KeepCausal(Matrix<const float> weights, int64_t first, const Rows& kept, float* sums);

// sums[r] = x[r] . y
void DotRows(const Rows& x, const float* y, float* sums);
// sums[c] += the sum of column c; row r counts weights[r] times, if there are weights.
void AddColumnSums(const Rows& x, float* sums, const float* weights = nullptr);
// y[r] = x[r] / (divisors[r] + eps)
void DivideRows(Matrix<const float> x, const float* divisors, float eps, const Rows& y);

// memory = share memory + sum_share sum; `sum` becomes what `memory` was.
void AddAndKeep(float share, Matrix<float> memory, float sum_share, Matrix<float> sum);

// memory += k v', out = q memory; v and out have memory.cols numbers, a multiple of 16, q and k memory.rows.
void ScanStep(const float* q, const float* k, const float* v, Matrix<float> memory, float* out);

// B of a product with bf16 rows in pairs, [rows / 2, ldb, 2] (PackColumns), to its plain rows: the transposed
// matrix as the micro-kernel reads its A. `to` has rows.rows rows, one more if that is odd, of rows.cols.
void UnpackPairs(const void* pairs, int64_t ldb, const Rows& to);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_SCAN_H_
