// The row-wise half of a streaming softmax (Milakov and Gimelshein 2018): scores come a block of keys at a
// time, and for each row a running maximum, a sum and an unnormalised result follow them:
//   m' = max(m, scores)   p = 2^(scores - m')   sum = sum 2^(m - m') + sum(p)   result = result 2^(m - m') +
//   p V
// SoftmaxStep does all but the last "+ p V", which is the micro-kernel's. Everything is in powers of two:
// scores are multiplied by log2(e) with their scale, biases when their tables are made.
//
// A block in which a row sees nothing leaves the row's state as it was, bit for bit, and columns that it does
// not see are never read: only the keys that a row sees decide its result.
#ifndef HEED_ENGINE_OPS_SOFTMAX_H_
#define HEED_ENGINE_OPS_SOFTMAX_H_

#include <cstdint>
#include <limits>
#include <span>

#include "engine/tensor/tensor.h"

namespace heed {

inline constexpr float kLog2E = 1.44269504f;

// What one row has seen so far, and what it sees of the block at hand.
struct SoftmaxRow {
  float max = std::numeric_limits<float>::lowest();  // finite, so that differences never become NaN
  float sum = 0;
  int begin = 0, end = 0;  // columns it sees; empty if end <= begin
  const float* bias =
      nullptr;  // added to the scaled scores, column by column, with bias_offset; null: nothing is added
  float bias_offset = 0;
};

// Columns come in pieces of this many: the micro-kernel's, and more than any vector holds.
inline constexpr int kSoftmaxPiece = 32;

struct SoftmaxBlock {
  Matrix<float> scores;    // [rows, columns]: q.k; not kept
  float factor = kLog2E;   // scale * log2(e), positive
  int begin = 0, end = 0;  // columns to write weights of, multiples of kSoftmaxPiece; all that any row sees
  Rows weights;            // p, [rows, columns]; f32 (may be the scores' own memory) or bf16
};

// rows[r] is row r of the block and of `result`, whose columns are a multiple of 16.
void SoftmaxStep(const SoftmaxBlock& block, std::span<SoftmaxRow> rows, Matrix<float> result);

// out[0, n) = result / sum, f32 or bf16; zeros where nothing was seen. `result` is readable up to a multiple
// of 16.
void SoftmaxFinish(const SoftmaxRow& row, const float* result, int64_t n, DType type, void* out);

// The sum of a row's weights in the columns [begin, end); weights of 0 before, between or after change no bit
// of it.
float SumWeights(const Rows& weights, int64_t row, int begin, int end);

// log(sum(exp(all scores of the row))), -infinity where nothing was seen. With it results over different keys
// merge:
//   lse = log(exp(a) + exp(b)),  out = exp(a - lse) out_a + exp(b - lse) out_b
float LogSumExp(const SoftmaxRow& row);

// SoftmaxFinish where `out` and `lse` are what other keys gave: merged with it.
void SoftmaxMerge(const SoftmaxRow& row, const float* result, int64_t n, DType type, void* out, float& lse);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_SOFTMAX_H_
