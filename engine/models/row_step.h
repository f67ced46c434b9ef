// What a program does to rows between two attentions. It is row-wise: blocks of rows go their way one by one,
// in any order, and each step finds a block where the step before left it, in the cache.
#ifndef HEED_ENGINE_MODELS_ROW_STEP_H_
#define HEED_ENGINE_MODELS_ROW_STEP_H_

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/blocks/embedding.h"
#include "engine/blocks/norm.h"
#include "engine/blocks/sublayer.h"

namespace heed {

// A block's rows in what lies beside the residual stream.
struct RowsBeside {
  std::span<const int32_t> ids;
  std::span<const int32_t> types;  // of the ids; empty: all are 0
  Rows inputs;                     // the numbers that the rows begin with
  RowPlaces places;
  Rows products;         // what the set's rows give to their attention
  Rows source_products;  // what they give to another set's that reads them
  Rows attended;         // what their attention gave to them
};

// Const and thread-safe.
class RowStep {
 public:
  virtual ~RowStep() = default;
  // All members of the block's team call it; the last thing is a barrier. Throws only bad_alloc.
  virtual void Run(RowBlock& block, const RowsBeside& beside) const = 0;

  virtual double multiply_adds() const { return 0; }                 // of a row
  virtual double apart_multiply_adds() const { return 0; }           // that a labelled row takes beside them
  virtual int64_t block_rows() const { return kMaxBlockRows; }       // the most that it takes at once
  virtual int64_t reads() const { return 0; }                        // widest input of a product
  virtual int64_t SharedBytes(int64_t /*rows*/) const { return 0; }  // of the team, in blocks of so many rows
  virtual int64_t scratch_bytes() const { return GemmScratchBytes(); }  // closed form, of each member
  virtual int64_t weight_bytes() const { return 0; }                    // of products, as held in memory
  virtual bool data_dependent() const { return false; }                 // as FeedForward has it
};

// The first rows: of tokens at their positions; of streams side by side, the same in each. Of a sequence the
// first `front` are left to others, and positions count from behind them. The last `beside` columns are
// others' too.
class EmbedStep : public RowStep {
 public:
  explicit EmbedStep(Embedding embedding, int64_t front = 0, int64_t beside = 0)
      : embedding_(std::move(embedding)), front_(front), beside_(beside) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override;
  double multiply_adds() const override { return embedding_.multiply_adds(); }
  int64_t reads() const override { return embedding_.reads(); }
  int64_t weight_bytes() const override { return embedding_.projection_bytes(); }

 private:
  Embedding embedding_;
  int64_t front_, beside_;
};

// What an attention reads of the rows that attend, which are the sublayer's.
class OpenStep : public RowStep {
 public:
  explicit OpenStep(const AttentionSublayer& sublayer) : sublayer_(sublayer) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override;
  double multiply_adds() const override { return sublayer_.open_multiply_adds(); }
  double apart_multiply_adds() const override { return sublayer_.apart_multiply_adds(); }
  int64_t reads() const override { return sublayer_.open_reads(); }

 private:
  const AttentionSublayer& sublayer_;
};

// What cross-attention reads of its source's rows.
class OpenSourceStep : public RowStep {
 public:
  explicit OpenSourceStep(const AttentionSublayer& sublayer) : sublayer_(sublayer) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override;
  double multiply_adds() const override { return sublayer_.source_multiply_adds(); }

 private:
  const AttentionSublayer& sublayer_;
};

// What an attention gave, into the residual stream. The sublayer's weights are counted here.
class CloseStep : public RowStep {
 public:
  explicit CloseStep(const AttentionSublayer& sublayer) : sublayer_(sublayer) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override;
  double multiply_adds() const override { return sublayer_.close_multiply_adds(); }
  int64_t reads() const override { return sublayer_.close_reads(); }
  int64_t SharedBytes(int64_t rows) const override { return sublayer_.SharedBytes(rows); }
  int64_t weight_bytes() const override { return sublayer_.weight_bytes(); }

 private:
  const AttentionSublayer& sublayer_;
};

class FeedForwardStep : public RowStep {
 public:
  explicit FeedForwardStep(FeedForwardSublayer sublayer) : sublayer_(std::move(sublayer)) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override;
  double multiply_adds() const override { return feed_forward().multiply_adds(); }
  int64_t block_rows() const override { return feed_forward().block_rows(); }
  int64_t reads() const override { return feed_forward().reads(); }
  int64_t SharedBytes(int64_t rows) const override { return feed_forward().SharedBytes(rows); }
  int64_t scratch_bytes() const override { return feed_forward().scratch_bytes(); }
  int64_t weight_bytes() const override { return feed_forward().weight_bytes(); }
  bool data_dependent() const override { return feed_forward().data_dependent(); }

 private:
  const FeedForward& feed_forward() const { return sublayer_.feed_forward(); }
  FeedForwardSublayer sublayer_;
};

// The norm of all rows, in place: where others than the head read them. Of the columns from `column` on, as
// many as it has weights.
class NormStep : public RowStep {
 public:
  explicit NormStep(Norm norm, int64_t column = 0) : norm_(std::move(norm)), column_(column) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override;

 private:
  Norm norm_;
  int64_t column_;
};

// Another set's step, with the same weights, which are counted there. It outlives this one.
class SameStep : public RowStep {
 public:
  explicit SameStep(const RowStep& step) : step_(step) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override { step_.Run(block, beside); }
  double multiply_adds() const override { return step_.multiply_adds(); }
  double apart_multiply_adds() const override { return step_.apart_multiply_adds(); }
  int64_t block_rows() const override { return step_.block_rows(); }
  int64_t reads() const override { return step_.reads(); }
  int64_t SharedBytes(int64_t rows) const override { return step_.SharedBytes(rows); }
  int64_t scratch_bytes() const override { return step_.scratch_bytes(); }
  bool data_dependent() const override { return step_.data_dependent(); }

 private:
  const RowStep& step_;
};

// A number in each column, added to all rows.
class AddStep : public RowStep {
 public:
  explicit AddStep(std::vector<float> row) : row_(std::move(row)) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override;

 private:
  std::vector<float> row_;
};

// The first numbers of all rows, so many, times a factor; 0: all of them.
class ScaleStep : public RowStep {
 public:
  explicit ScaleStep(float factor, int64_t columns = 0) : factor_(factor), columns_(columns) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override;

 private:
  float factor_;
  int64_t columns_;
};

// The first rows of numbers: x = W inputs + b.
class ProjectStep : public RowStep {
 public:
  // `norm`: of the inputs, before the product.
  ProjectStep(PackedWeights weights, std::optional<Norm> norm)
      : weights_(std::move(weights)), norm_(std::move(norm)) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override;
  double multiply_adds() const override;
  int64_t reads() const override { return weights_.in(); }
  int64_t weight_bytes() const override { return weights_.bytes(); }

 private:
  PackedWeights weights_;
  std::optional<Norm> norm_;
};

// All rows in their place: x = norm(activation(W x + b)), of the first columns as many as the product reads
// and gives.
class TransformStep : public RowStep {
 public:
  TransformStep(PackedWeights weights, Activation activation, std::optional<Norm> norm)
      : weights_(std::move(weights)), activation_(activation), norm_(std::move(norm)) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override;
  double multiply_adds() const override;
  int64_t reads() const override { return weights_.in(); }
  int64_t weight_bytes() const override { return weights_.bytes(); }

 private:
  PackedWeights weights_;
  Activation activation_;
  std::optional<Norm> norm_;
};

// Rows that the model brings: those whose position is within the table are its rows.
class TableStep : public RowStep {
 public:
  explicit TableStep(Tensor table) : table_(std::move(table)) {}  // [rows, width]
  void Run(RowBlock& block, const RowsBeside& beside) const override;

 private:
  Tensor table_;
};

class PositionStep : public RowStep {
 public:
  explicit PositionStep(PositionTable positions) : positions_(std::move(positions)) {}
  void Run(RowBlock& block, const RowsBeside& beside) const override;

 private:
  PositionTable positions_;
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_ROW_STEP_H_
