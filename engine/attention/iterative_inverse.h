// The pseudo-inverse of a small matrix A of softmax weights (its rows sum to one) by products alone
// (Nyströmformer, Xiong et al. 2021, after Razavi et al. 2014):
//   Z = A' / (largest column sum of A), then six times Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4
// in f32, in steps of which each gives some rows of a matrix: threads may share a step's rows, and do one
// step after another. A row's numbers do not depend on how a step is cut.
#ifndef HEED_ENGINE_ATTENTION_ITERATIVE_INVERSE_H_
#define HEED_ENGINE_ATTENTION_ITERATIVE_INVERSE_H_

#include <cstdint>

#include "engine/base/memory.h"
#include "engine/ops/rows.h"
#include "engine/tensor/tensor.h"

namespace heed {

// Const and thread-safe but for the memory that it is given: `work`, Bytes() of it, for one matrix.
class IterativeInverse {
 public:
  static constexpr int kRounds = 6;
  static constexpr int kSteps = 1 + 4 * kRounds;

  explicit IterativeInverse(int64_t size);  // of A, [size, size]

  int64_t Bytes() const;
  int64_t ScratchBytes() const;
  // Columns that a product computes, zeros behind A's included: where A is written there is room for them.
  int64_t columns() const { return columns_; }
  // Multiply-adds of a row in one step.
  double RowCost() const { return static_cast<double>(size_) * static_cast<double>(columns_); }

  // Where -A is to be put before the first step, its columns behind `size` zeros.
  Matrix<float> Negative(float* work) const { return At(work, kNegative); }
  float LargestColumnSum(float* work, Scratch& scratch) const;  // of A
  // `divisor`, of step 0: instead of the largest column sum of A; 0: that.
  void Do(int step, int64_t first, int64_t count, float* work, Scratch& scratch, float divisor = 0) const;
  // Z, after the last step.
  Matrix<float> Result(float* work) const { return At(work, kInverse); }

 private:
  enum Place : int { kNegative, kInverse, kOther, kProduct, kTerm, kPlaces };

  Matrix<float> At(float* work, int place) const;
  void Start(int64_t first, int64_t count, float* work, float divisor) const;
  void Round(int round, int step, int64_t first, int64_t count, float* work) const;

  int64_t size_, columns_, stride_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_ITERATIVE_INVERSE_H_
