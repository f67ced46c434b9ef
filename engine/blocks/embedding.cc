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
  RETURN_IF_ERROR(embedding.LoadTables(embed));
  ASSIGN_OR_RETURN(embedding.positions_, PositionTable::Load(embed / "positions", {options.positions, places,
                                                                                   options.max_positions}));
  if (options.types > 0) {
    ASSIGN_OR_RETURN(embedding.types_, embed.Get("types.weight", {options.types, places}));
  }
  if (options.norm) {
    const int64_t normed = options.projection == EmbeddingProjection::kLast ? read : width;
    ASSIGN_OR_RETURN(embedding.norm_, Norm::Load(embed / "norm", normed, *options.norm));
  }
  return embedding;
}

absl::Status Embedding::LoadTables(const WeightScope& embed) {
  const bool clustered = !options_.clusters.empty();
  CHECK(!clustered || options_.projection == EmbeddingProjection::kTokens);
  const std::vector<TokenCluster> all = {{options_.vocab_size, options_.table_width}};
  int64_t first = 0;
  for (const TokenCluster& of : clustered ? options_.clusters : all) {
    const WeightScope scope = clustered ? embed / Cat(tables_.size()) : embed;
    Table table{.first = first};
    ASSIGN_OR_RETURN(table.rows, (scope / "tokens").Get("weight", {of.tokens, of.width}));
    if (projects()) {
      PackedWeights::Part part;
      ASSIGN_OR_RETURN(part.weight, (scope / "projection").Get("weight", {options_.width, of.width}));
      if (!clustered) {
        ASSIGN_OR_RETURN(part.bias, (scope / "projection").Optional("bias", {options_.width}));
      }
      table.projection = std::make_shared<PackedWeights>(PackedWeights::Pack({part}, options_.precision));
    }
    tables_.push_back(std::move(table));
    first += of.tokens;
  }
  return absl::OkStatus();
}

int64_t Embedding::bytes() const {
  int64_t sum = positions_.bytes() + (options_.types > 0 ? types_.size() * SizeOf(types_.dtype) : 0);
  for (const Table& table : tables_) sum += table.rows.size() * SizeOf(table.rows.dtype);
  return sum;
}

int64_t Embedding::reads() const {
  int64_t widest = 0;
  for (const Table& table : tables_) widest = std::max(widest, table.projection ? table.projection->in() : 0);
  return widest;
}

int64_t Embedding::projection_bytes() const {
  int64_t sum = 0;
  for (const Table& table : tables_) sum += table.projection ? table.projection->bytes() : 0;
  return sum;
}

double Embedding::multiply_adds() const {
  double sum = 0;
  for (const Table& table : tables_)
    sum += table.projection
               ? static_cast<double>(table.projection->in()) * static_cast<double>(table.projection->out())
               : 0;
  return sum;
}

void Embedding::Run(RowBlock& block, const EmbeddedRows& rows) const {
  using enum EmbeddingProjection;
  const EmbeddingProjection projection = options_.projection;
  const Matrix<float> x = block.x.Cols(0, options_.width), narrow = x.Cols(0, options_.table_width);
  const auto normalize = [&](const Matrix<float>& normed) {
    if (norm_) norm_->Apply(normed, AsRows(normed));
  };
  if (options_.clusters.empty()) {
    ForRows(block, [&](int64_t first, int64_t count) {
      const Matrix<float> made = narrow.Rows(first, count);
      SetTokens(rows, first, tables_[0], made);
      if (options_.norm_of_tokens) normalize(made);
      if (projection != kTokens) AddPlaces(rows, first, made);
      if ((projection == kNone && !options_.norm_of_tokens) || projection == kLast) normalize(made);
    });
    if (!projects()) return;
    Project(block, narrow, x);
  } else {
    ProjectTables(block, rows, x);
  }
  if (projection == kLast) return;
  ForRows(block, [&](int64_t first, int64_t count) {
    const Matrix<float> made = x.Rows(first, count);
    if (projection == kTokens) AddPlaces(rows, first, made);
    normalize(made);
  });
}

// Of rows whose token the table does not have, zeros.
void Embedding::SetTokens(const EmbeddedRows& rows, int64_t first, const Table& table,
                          Matrix<float> x) const {
  for (int64_t r = 0; r < x.rows; ++r) {
    float* const to = x.row(r);
    const bool front = rows.positions[first + r] < rows.front;
    const int64_t place = front ? -1 : rows.ids[first + r] - table.first;
    if (place < 0 || place >= table.rows.dim(0)) {
      std::fill_n(to, x.cols, 0.0f);
      continue;
    }
    ToFloats(table.rows, place * x.cols, x.cols, to);
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

// The sum of the products of all tables, of which each row has a token in one: then a row is the same whoever
// stands beside it.
void Embedding::ProjectTables(RowBlock& block, const EmbeddedRows& rows, const Matrix<float>& x) const {
  const Rows all = block.buffers.input.First(block.rows());
  for (const Table& table : tables_) {
    const Rows read = all.Cols(0, table.rows.dim(1));
    const Matrix<float> made =
        block.buffers.result.First(block.rows()).As<float>().Cols(0, table.rows.dim(1));
    ForRows(block, [&](int64_t first, int64_t count) {
      SetTokens(rows, first, table, made.Rows(first, count));
      Convert(AsRows(made.Rows(first, count)), read.Slice(first, count));
    });
    Linear(block, read, *table.projection, {.out = AsRows(x), .add = table.first > 0});
  }
}

// Of `narrow` columns of x into all of them: what is read lies beside what is written.
void Embedding::Project(RowBlock& block, const Matrix<float>& narrow, const Matrix<float>& x) const {
  const Rows read = block.buffers.input.First(block.rows()).Cols(0, narrow.cols);
  ForRows(block, [&](int64_t first, int64_t count) {
    Convert(AsRows(narrow.Rows(first, count)), read.Slice(first, count));
  });
  Linear(block, read, *tables_[0].projection, {.out = AsRows(x)});
}

}  // namespace heed
