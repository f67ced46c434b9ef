// A depthwise convolution along a sequence, as recurrent layers have it before their recurrence:
//   y_t = f(bias + sum over c of kernel[c] x_(t + c - size + 1)), number by number, zeros before the sequence
// What it remembers of a sequence is its last rows, as many as the kernel has taps, less one.
#ifndef HEED_ENGINE_ATTENTION_CAUSAL_CONVOLUTION_H_
#define HEED_ENGINE_ATTENTION_CAUSAL_CONVOLUTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/ops/gemm.h"
#include "engine/tensor/tensor.h"
#include "engine/weights/weights.h"

namespace heed {

// Const and thread-safe but for the state and scratch given.
class CausalConvolution {
 public:
  static constexpr int64_t kColumns = 256;  // that a task takes

  struct Options {
    int64_t columns = 0, size = 0;
    Activation activation = Activation::kNone;  // or kSilu
  };
  // The option "kernel": its taps, 4 if it is not there.
  static int64_t ReadSize(JsonFields& fields);
  // Tensors: weight [columns, size], bias [columns] where present.
  static absl::StatusOr<CausalConvolution> Load(const WeightScope& scope, const Options& options);

  // Room in scratch for so many rows of x; only these columns of it.
  Matrix<float> Room(int64_t rows, Range columns, Scratch& scratch) const;
  // Of rows x that are in Room(), and stay there: y. `state`: of a sequence, state() numbers, changed.
  void Apply(Matrix<float> x, Range columns, float* state, Matrix<float> y) const;
  // The same of rows that lie elsewhere.
  void Apply(const Rows& x, Range columns, float* state, Matrix<float> y, Scratch& scratch) const;

  // The task-th columns.
  Range Columns(int64_t task) const;
  int64_t tasks() const;
  int64_t state() const { return (options_.size - 1) * options_.columns; }
  double RowCost() const { return static_cast<double>(options_.size * options_.columns); }
  double TaskRowCost() const;                                            // of the columns of a task
  int64_t ScratchBytes(int64_t rows, int64_t columns = kColumns) const;  // of so many, or all
  int64_t bytes() const { return static_cast<int64_t>((kernel_.size() + bias_.size()) * sizeof(float)); }

 private:
  int64_t Width(Range columns) const;  // of rows in Room()

  Options options_;
  std::vector<float> kernel_;  // [size, columns]
  std::vector<float> bias_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_CAUSAL_CONVOLUTION_H_
