#include "engine/blocks/embedding.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/attention/attention.h"
#include "engine/base/status.h"
#include "engine/blocks/sublayer.h"
#include "engine/ops/rows.h"

namespace heed {

absl::StatusOr<Embedding> Embedding::Load(const WeightScope& scope, const EmbeddingOptions& options) {
  Embedding embedding;
  embedding.options_ = options;
  const int64_t width = options.width, read = embedding.projects() ? options.table_width : width;
  CHECK_LE(read, width);
  CHECK(!options.norm_of_tokens || !embedding.projects());
  embedding.options_.table_width = read;
  const int64_t places = options.projection == EmbeddingProjection::kTokens ? width : read;
  const WeightScope embed = scope / "embed";
  ASSIGN_OR_RETURN(embedding.tokens_, embed.Get("tokens.weight", {options.vocab_size, read}));
  ASSIGN_OR_RETURN(embedding.positions_, PositionTable::Load(embed / "positions", {options.positions, places,
                                                                                   options.max_positions}));
  if (options.types > 0) {
    ASSIGN_OR_RETURN(embedding.types_, embed.Get("types.weight", {options.types, places}));
  }
  if (options.norm) {
    const int64_t normed = options.projection == EmbeddingProjection::kLast ? read : width;
    ASSIGN_OR_RETURN(embedding.norm_, Norm::Load(embed / "norm", normed, *options.norm));
  }
  if (embedding.projects()) {
    ASSIGN_OR_RETURN(const Product product, LoadProduct(embed, "projection", width, read));
    embedding.projection_ = std::make_shared<PackedWeights>(
        PackedWeights::Pack({{product.weight, product.bias}}, options.precision));
  }
  return embedding;
}

int64_t Embedding::bytes() const {
  const int64_t types = options_.types > 0 ? types_.size() * SizeOf(types_.dtype) : 0;
  return tokens_.size() * SizeOf(tokens_.dtype) + types + positions_.bytes();
}

void Embedding::Run(RowBlock& block, const EmbeddedRows& rows) const {
  using enum EmbeddingProjection;
  const EmbeddingProjection projection = options_.projection;
  const Matrix<float> x = block.x.Cols(0, options_.width), narrow = x.Cols(0, options_.table_width);
  const auto normalize = [&](const Matrix<float>& normed) {
    if (norm_) norm_->Apply(normed, AsRows(normed));
  };
  ForRows(block, [&](int64_t first, int64_t count) {
    const Matrix<float> made = narrow.Rows(first, count);
    SetTokens(rows, first, made);
    if (options_.norm_of_tokens) normalize(made);
    if (projection != kTokens) AddPlaces(rows, first, made);
    if ((projection == kNone && !options_.norm_of_tokens) || projection == kLast) normalize(made);
  });
  if (!projects()) return;
  Project(block, narrow, x);
  if (projection == kLast) return;
  ForRows(block, [&](int64_t first, int64_t count) {
    const Matrix<float> made = x.Rows(first, count);
    if (projection == kTokens) AddPlaces(rows, first, made);
    normalize(made);
  });
}

void Embedding::SetTokens(const EmbeddedRows& rows, int64_t first, Matrix<float> x) const {
  for (int64_t r = 0; r < x.rows; ++r) {
    float* const to = x.row(r);
    if (rows.positions[first + r] < rows.front) {
      std::fill_n(to, x.cols, 0.0f);
      continue;
    }
    ToFloats(tokens_, rows.ids[first + r] * x.cols, x.cols, to);
    for (int64_t c = 0; c < x.cols && options_.scale != 1; ++c) to[c] *= options_.scale;
  }
}

void Embedding::AddPlaces(const EmbeddedRows& rows, int64_t first, Matrix<float> x) const {
  std::vector<float> type(options_.types > 0 ? x.cols : 0);
  for (int64_t r = 0; r < x.rows && !type.empty(); ++r) {
    const int64_t of_row = rows.types.empty() ? 0 : rows.types[first + r];
    ToFloats(types_, of_row * x.cols, x.cols, type.data());
    Add({type.data(), 1, x.cols, x.cols}, x.Rows(r, 1));
  }
  if (rows.front == 0) return positions_.Add(rows.positions.subspan(first, x.rows), x);
  for (int64_t r = 0; r < x.rows; ++r) {
    const int64_t position = rows.positions[first + r] - rows.front;
    if (position >= 0) positions_.Add({&position, 1}, x.Rows(r, 1));
  }
}

// Of `narrow` columns of x into all of them: what is read lies beside what is written.
void Embedding::Project(RowBlock& block, const Matrix<float>& narrow, const Matrix<float>& x) const {
  const Rows read = block.buffers.input.First(block.rows()).Cols(0, narrow.cols);
  ForRows(block, [&](int64_t first, int64_t count) {
    Convert(AsRows(narrow.Rows(first, count)), read.Slice(first, count));
  });
  Linear(block, read, *projection_, {.out = AsRows(x)});
}

}  // namespace heed
