// The two halves of a Transformer layer as row programs: Open() makes what a sublayer reads, Close() brings
// its result back into the residual stream, as the norm's placement says.
#ifndef HEED_ENGINE_BLOCKS_SUBLAYER_H_
#define HEED_ENGINE_BLOCKS_SUBLAYER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/attention/attention.h"
#include "engine/base/round.h"
#include "engine/blocks/feed_forward.h"
#include "engine/blocks/grouped_product.h"
#include "engine/blocks/norm.h"
#include "engine/blocks/row_block.h"

namespace heed {

inline Rows AsRows(const Matrix<float>& x) { return {DType::kF32, x.data, x.rows, x.cols, x.stride}; }

// What a product reads of the block's rows: their norm or, if there is none, they themselves; in the
// activation type, so that f32 may be the rows where they are.
Rows ForProduct(RowBlock& block, const Matrix<float>& x, const Norm* norm);

// How a sublayer stands in the residual stream.
struct ResidualOptions {
  int64_t width = 0;
  NormOptions norm;
  // Columns that it reads and adds to begin here: of streams side by side in a row (Gomez et al. 2017), one
  // is read, another changed. Then the norm is kPre.
  int64_t read_column = 0, write_column = 0;
  // Not the residual stream is read but the numbers that rows begin with.
  bool reads_inputs = false;
  // What the sublayer gives is added times this.
  float multiplier = 1;
  // Of an attention, without a norm of its own: its queries, as they are projected, take the place of the
  // residual stream that was read, and what is attended is added to them as it is (Lee et al. 2019).
  bool of_queries = false;
};

// A residual connection with its norm, or the two that a sandwich has.
class Residual {
 public:
  // Tensors: norm_scope/{weight,bias}; of a sandwich's second norm the same of that name with "_post".
  static absl::StatusOr<Residual> Load(const WeightScope& norm_scope, const ResidualOptions& options);

  // What the sublayer reads: norm(x) with kPre and kSandwich, else x; in the activation type. `inputs`: the
  // numbers that the block's rows begin with, if it reads those.
  Rows Open(RowBlock& block, const Rows& inputs = {}) const;
  void Normalize(Matrix<const float> x, const Rows& y) const;  // the same for any rows
  // f writes the sublayer's result through the epilogue's out and add (a product's last step).
  void Close(RowBlock& block, absl::FunctionRef<void(const Epilogue&)> f) const;
  // What is read of the residual stream's rows.
  Matrix<float> Read(const Matrix<float>& x) const { return x.Cols(options_.read_column, options_.width); }

 private:
  // What the sublayer's result goes through before it is added; null: nothing.
  const Norm* NormOfResult() const;
  void AddApart(RowBlock& block, const Matrix<float>& x, absl::FunctionRef<void(const Epilogue&)> f) const;

  ResidualOptions options_;
  Norm norm_, post_;  // the second is a sandwich's
};

// Which rows of their sequences a block's are.
struct RowPlaces {
  static constexpr int32_t kNoLabel = -1;  // of the rows of a sequence that is not labelled

  std::span<const int64_t> positions;
  std::span<const int32_t> labels;  // as AttentionRows has them; empty: no sequence is labelled
};

// Of an attention that stands beside another.
struct SublayerWeights {
  std::string output = "o";
  // Whose products of the rows are this one's too: the same weights, held once. Outlives it.
  const class AttentionSublayer* lender = nullptr;
};

// An attention with its products, its output projection and its residual. Const and thread-safe. If products
// are of the source, it is cross-attention.
class AttentionSublayer : public LayerInput {
 public:
  // Tensors: the residual's; scope/{o, if there is one, and the variant's own}.
  static absl::StatusOr<AttentionSublayer> Load(std::unique_ptr<Attention> attention,
                                                const WeightScope& scope, const WeightScope& norm_scope,
                                                const ResidualOptions& residual, Precision precision,
                                                const SublayerWeights& weights = {});

  // Before the attention: norm, then all products of the input side by side into `products` [rows,
  // products_width]. `inputs`: as Residual has them.
  void Open(RowBlock& block, const RowPlaces& places, const Rows& products, const Rows& inputs = {}) const;
  // Cross-attention, for rows of the source, which are read as they are, or after the norm that is theirs:
  // all products of the source side by side into `products` [source rows, source_products_width].
  void OpenSource(RowBlock& source, const Rows& products, const Rows& inputs = {}) const;
  // After it: o(attended), or attended itself, into the residual stream. attended [rows,
  // attention().out_width()]. Takes SharedBytes() of what the block's team shares.
  void Close(RowBlock& block, const Rows& attended) const;

  void Normalize(Matrix<const float> input, const Rows& normed) const override {
    residual_.Normalize(input, normed);
  }
  const PackedWeights& products() const override { return lender_ ? lender_->products() : products_; }

  void NormSource(Norm norm) { source_norm_ = std::move(norm); }
  // Of the source the numbers are read that its rows begin with.
  void ReadInputsOfSource() { source_reads_inputs_ = true; }

  const Attention& attention() const { return *attention_; }
  // The layer's input, of the residual stream's rows.
  Matrix<float> Input(const Matrix<float>& x) const { return residual_.Read(x); }
  bool cross() const { return cross_; }
  int64_t products_width() const { return chained_.empty() ? unchained_width() : columns_end_; }
  // Widest input of a product that is not the layer's own input.
  int64_t open_reads() const;
  int64_t close_reads() const { return std::max(attention_->out_width(), output_.in()); }
  int64_t SharedBytes(int64_t rows) const;                                  // of blocks of so many rows
  int64_t source_products_width() const { return source_products_.out(); }  // 0: all of them are lent
  // The columns of each product, for AttentionRows: of `products`, or of `source` or, where they are lent, of
  // the source's own products `lent`. These may be empty where no product is of the source.
  std::vector<Rows> Split(const Rows& products, const Rows& source = {}, const Rows& lent = {}) const;
  int64_t weight_bytes() const {
    int64_t bytes =
        products_.bytes() + choosing_.bytes() + queries_.bytes() + source_products_.bytes() + output_.bytes();
    for (const Apart& apart : apart_) bytes += apart.weights.bytes();
    for (const Chained& chained : chained_) bytes += chained.weights.bytes();
    if (result_) bytes += result_->bytes();
    return bytes + attention_->constant_bytes();
  }
  // A row's, products only; rows apart are taken for the others.
  double open_multiply_adds() const;
  double close_multiply_adds() const;
  double apart_multiply_adds() const;   // that a row apart takes beside them
  double source_multiply_adds() const;  // a row of the source

 private:
  // RowsApart of a product.
  struct Apart {
    std::vector<int64_t> positions;
    PackedWeights weights;
    int64_t offset = 0;  // of the product's columns
  };
  // A product of another's results.
  struct Chained {
    size_t product = 0;  // its number
    int of = 0;
    GroupedProduct weights;
  };
  // Where the results of products begin that are made beside the others.
  int64_t beside_column() const { return RoundUp(products().out(), 16); }
  int64_t unchained_width() const {
    const int64_t beside = choosing_.out() + queries_.out();
    return beside > 0 ? beside_column() + beside : products().out();
  }
  Rows ColumnsOf(size_t product, const Rows& products) const {
    return products.Cols(columns_[product], attention_->products()[product].weight.dim(0));
  }
  void AddChained(size_t number, const Product& product, Precision precision);
  void RunChained(RowBlock& block, const Rows& products) const;
  Rows Results(Pieces pieces, int64_t rows, int64_t* bytes = nullptr) const;
  void TakeQueries(RowBlock& block, const Rows& input, const Rows& products) const;
  void CloseGated(RowBlock& block, const Rows& attended) const;
  void FinishProducts(RowBlock& block, const Rows& results, bool of_source) const;

  std::unique_ptr<Attention> attention_;
  Residual residual_;
  std::optional<Norm> source_norm_;
  bool source_reads_inputs_ = false;
  bool cross_ = false;
  const AttentionSublayer* lender_ = nullptr;
  PackedWeights products_, source_products_, output_;
  PackedWeights choosing_;        // the products that choose, where the others are int8
  PackedWeights queries_;         // q, where it is the residual; then none chooses
  std::vector<int64_t> columns_;  // of each product, where its results begin
  std::vector<Apart> apart_;
  std::vector<Chained> chained_;  // in their order
  int64_t columns_end_ = 0;       // behind the last one's
  std::optional<GroupedProduct> result_;
  DType type_ = DType::kF32;  // of activations
};

// A feed-forward with its residual. Const and thread-safe.
class FeedForwardSublayer {
 public:
  static absl::StatusOr<FeedForwardSublayer> Load(std::unique_ptr<FeedForward> feed_forward,
                                                  const WeightScope& norm_scope,
                                                  const ResidualOptions& residual);
  void Run(RowBlock& block) const;
  const FeedForward& feed_forward() const { return *feed_forward_; }

 private:
  std::unique_ptr<FeedForward> feed_forward_;
  Residual residual_;
};

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_SUBLAYER_H_
