// One row, a slot, for every `stride` rows of a sequence, as compressed memories have it: a convolution as
// long as its stride,
//   slot_p = b + sum over t < stride of W_t x_(p stride + t)
// or, number by number, the mean or the maximum of the rows. A row is folded into its slot when it comes, and
// no longer needed: each row costs the same, a slot that is not whole is all that is kept, and sums run from
// tap to tap in f32 wherever chunks end.
#ifndef HEED_ENGINE_ATTENTION_COMPRESSION_H_
#define HEED_ENGINE_ATTENTION_COMPRESSION_H_

#include <cstdint>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/base/memory.h"
#include "engine/ops/gemm.h"

namespace heed {

// Const and thread-safe.
class Compression {
 public:
  enum class Kind { kConv, kMean, kMax };
  static Kind ReadKind(JsonFields& fields);  // "compression": "conv", "mean" or "max"

  // A convolution's weight [hidden_size, hidden_size, stride] (out, in, tap) and, where present, bias
  // [hidden_size]. The columns of a slot are made in num_heads parts.
  static absl::StatusOr<Compression> Load(const AttentionSetting& setting, Kind kind, int64_t stride,
                                          const WeightScope& scope);

  // Folds rows [n, hidden_size], the first at `position` of the sequence, into a part's columns of the slots
  // that they lie in. A first slot that begins before them goes on from what it holds.
  void Fold(int part, int64_t position, const Rows& rows, const Matrix<float>& slots, Scratch& scratch) const;
  // Slots from `first` on of which all rows are folded, in a sequence that has so many.
  void Finish(int64_t first, int64_t tokens, const Matrix<float>& slots) const;

  int64_t stride() const { return stride_; }
  double RowCost() const;                     // multiply-adds that a row takes in one part
  int64_t ScratchBytes(int64_t slots) const;  // of Fold, for so many slots
  int64_t bytes() const;                      // of the weights

 private:
  Compression(const AttentionSetting& setting, Kind kind, int64_t stride);
  void FoldTap(int part, int64_t tap, const Rows& rows, const Matrix<float>& slots, Scratch& scratch) const;
  int64_t Pitch() const { return width_ + static_cast<int64_t>(kAlignment) / SizeOf(type_); }

  Kind kind_;
  int64_t stride_, width_, part_width_;
  DType type_;
  std::vector<PackedWeights> weights_;  // [part][tap]
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_COMPRESSION_H_
