// Token ids, types and positions to the first rows of the residual stream.
#ifndef HEED_ENGINE_BLOCKS_EMBEDDING_H_
#define HEED_ENGINE_BLOCKS_EMBEDDING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/blocks/norm.h"
#include "engine/blocks/positions.h"
#include "engine/blocks/row_block.h"
#include "engine/blocks/token_clusters.h"
#include "engine/tensor/tensor.h"
#include "engine/weights/weights.h"

namespace heed {

// Where rows of the tables become rows of the stream by a product: nowhere; after all was added and normed
// (ALBERT, Lan et al. 2020; ELECTRA, Clark et al. 2020); before the norm (DeBERTa, He et al. 2021); or of the
// tokens alone, before all else is added (OPT, Zhang et al. 2022).
enum class EmbeddingProjection { kNone, kLast, kBeforeNorm, kTokens };

struct EmbeddingOptions {
  int64_t vocab_size = 0;
  int64_t width = 0;  // of the rows
  float scale = 1;    // of the token's row, before anything is added
  Positions positions = Positions::kNone;
  int64_t max_positions = 0;  // rows of the learned table
  int64_t types = 0;          // rows of the table of types; 0: there is none
  std::optional<NormOptions> norm{};
  bool norm_of_tokens = false;  // the norm is of the token's row, before anything is added; no projection
  EmbeddingProjection projection = EmbeddingProjection::kNone;
  int64_t table_width = 0;  // with a projection: of what it reads, at most width
  // With kTokens: tables and projections of their own, instead of one. Their tokens are vocab_size together,
  // their widths at most width.
  std::vector<TokenCluster> clusters{};
  Precision precision = Precision::kF32;  // of the projection
};

// What rows are made of.
struct EmbeddedRows {
  std::span<const int32_t> ids;        // below vocab_size
  std::span<const int32_t> types;      // below the number of types; empty: 0
  std::span<const int64_t> positions;  // below max_positions
  // Rows at positions below are made elsewhere, afterwards; positions count from here on.
  int64_t front = 0;
};

// x = norm(scale * tokens[id] + types[type] + positions[p]), with a product where the options say so; or
// norm(scale * tokens[id]) + types[type] + positions[p]. Const and thread-safe; copies share the tables and
// the product.
class Embedding {
 public:
  // Tensors: scope/embed.tokens.weight [vocab_size, table width]; embed.positions.weight [max_positions,
  // width] if learned; embed.types.weight [types, width]; embed.norm.{weight, bias};
  // embed.projection.{weight [width, table width], bias where present}. The widths of positions, types and
  // norm are those of the rows that they meet. Of clusters embed.I.tokens.weight and
  // embed.I.projection.weight instead.
  static absl::StatusOr<Embedding> Load(const WeightScope& scope, const EmbeddingOptions& options);

  // Of the block's rows the first width() columns. All members of its team call it; the last thing is a
  // barrier.
  void Run(RowBlock& block, const EmbeddedRows& rows) const;

  int64_t width() const { return options_.width; }
  Tensor tokens() const { return tables_.size() == 1 ? tables_[0].rows : Tensor(); }  // for a tied head
  int64_t bytes() const;                                                              // of the tables
  // Of the projections, as products: the widest input, memory, multiply-adds of a row.
  int64_t reads() const;
  int64_t projection_bytes() const;
  double multiply_adds() const;

 private:
  // All tokens, or those of a cluster: from `first` on.
  struct Table {
    int64_t first = 0;
    Tensor rows{};
    std::shared_ptr<const PackedWeights> projection{};  // null if there is none
  };
  absl::Status LoadTables(const WeightScope& embed);
  bool projects() const { return options_.projection != EmbeddingProjection::kNone; }
  void SetTokens(const EmbeddedRows& rows, int64_t first, const Table& table, Matrix<float> x) const;
  void AddPlaces(const EmbeddedRows& rows, int64_t first, Matrix<float> x) const;
  void ProjectTables(RowBlock& block, const EmbeddedRows& rows, const Matrix<float>& x) const;
  void Project(RowBlock& block, const Matrix<float>& narrow, const Matrix<float>& x) const;

  EmbeddingOptions options_;
  std::vector<Table> tables_;
  Tensor types_;
  PositionTable positions_;
  std::optional<Norm> norm_;
};

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_EMBEDDING_H_
