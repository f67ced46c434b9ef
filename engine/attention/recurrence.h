// Layers whose past is a state of constant size, which each row changes: what `mamba2`, `gated_delta` and
// their like have in common. They are causal; decoding is exact. Every sum runs in the same order however
// rows come, so that steps are the whole bit for bit.
//
// Rows at hand are worked on in pieces, one after another, and each piece in steps whose tasks share it: by
// heads or columns, each with all rows of the piece, or by a few rows. What steps hand on lies in `work`.
#ifndef HEED_ENGINE_ATTENTION_RECURRENCE_H_
#define HEED_ENGINE_ATTENTION_RECURRENCE_H_

#include <memory>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/base/threads.h"

namespace heed {

// A piece of the rows at hand, as the tasks of its steps see it.
struct RecurrentRows {
  const AttentionRows& all;
  Range part;              // the piece's, of `all`
  int64_t position = 0;    // of its first row in the sequence
  Matrix<float> work;      // [rows, RecurrentSizes::work]
  float* state = nullptr;  // of the sequence: RecurrentSizes::state numbers, 0 at first

  int64_t count() const { return part.size(); }
  Rows Product(int p) const { return all.products[p].Slice(part.begin, count()); }
  Rows out() const { return all.out.Slice(part.begin, count()); }
};

struct RecurrentSizes {
  int64_t state = 0;    // numbers
  int64_t work = 0;     // numbers that steps hand on of a row
  double row_cost = 0;  // multiply-adds of a row, all of it
  int64_t scratch = 0;  // bytes that a task takes at most
};

// Const and thread-safe.
class RecurrentAttention : public Attention {
 public:
  static constexpr int64_t kPiece = 512;   // rows of a piece, at most
  static constexpr int64_t kFewRows = 64;  // of a task that shares a piece by rows
  // Of a head's state, or of its sides: a piece of a head is no long task.
  static constexpr int64_t kMostSide = 1024;

  // Of a piece of so many rows.
  virtual std::vector<AttentionStage> Steps(int64_t rows) const = 0;
  virtual void Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const = 0;

  std::unique_ptr<AttentionRun> Start() const override;
  int64_t StateBytes(int64_t tokens) const override;
  int64_t PassBytes() const override;
  double Cost(int64_t rows, int64_t tokens) const override;
  int64_t ScratchBytes() const override { return sizes_.scratch; }
  const RecurrentSizes& sizes() const { return sizes_; }
  int64_t work_pitch() const;  // between rows of what steps hand on

 protected:
  // The task-th few of so many rows.
  static Range FewRows(int64_t rows, int64_t task);
  // The tasks that share so many rows.
  static AttentionStage ByRows(int64_t rows, double row_cost);

  RecurrentSizes sizes_;
};

// An error where the attention would not be causal.
void RequireCausal(const AttentionSetting& setting, JsonFields& fields);

// f32 numbers where rows of any type are read or written.
inline Rows FloatRows(Matrix<const float> x) {
  return {DType::kF32, const_cast<float*>(x.data), x.rows, x.cols, x.stride};
}

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_RECURRENCE_H_
