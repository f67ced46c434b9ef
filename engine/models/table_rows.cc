#include "engine/models/table_rows.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMaxColumns = 1 << 16;  // of each kind
constexpr int64_t kMaxValues = 1 << 24;   // of a column
constexpr int64_t kMaxJoinedWidth = 1 << 20;

}  // namespace

void TableColumns::Describe(LoadedStack& loaded) const {
  loaded.input = {.kind = InputRow::Kind::kTableRow, .ids = num_categorical(), .numbers = num_numerical};
  for (int64_t values : categories) loaded.id_limits.push_back(values + 1);
  loaded.schema = schema;
}

TableColumns ReadTableColumns(JsonFields& fields, ModelConfig& config) {
  TableColumns columns;
  columns.categories = fields.Ints("categories", 0, kMaxColumns, 1, kMaxValues);
  columns.num_numerical = fields.Int("num_numerical", 0, 0, kMaxColumns);
  if (columns.categories.empty() && columns.num_numerical == 0)
    fields.Fail("categories: none, and num_numerical: 0; a table has at least 1 column");
  columns.schema = ReadTableSchema(fields, columns.categories, columns.num_numerical);
  for (const char* key : {"vocab_size", "positions", "embedding_scale", "max_position_embeddings"}) {
    if (fields.Has(key))
      fields.Fail(Cat(key, ": of a model that reads tokens; this one reads rows of a table"));
  }
  if (fields.Has("pooling")) fields.Fail("pooling: each row of the table has an answer of its own");
  if (fields.Has("head") && fields.Raw("head") != "classification")
    fields.Fail(
        Cat("head: ", Shown(fields.Raw("head")), "; of rows of a table \"classification\" is served"));
  config.default_head = "classification";
  config.class_pooling = Pooling::kNone;
  return columns;
}

int64_t CheckJoinedWidth(int64_t tokens, int64_t numbers, JsonFields& fields, const ModelConfig& config) {
  const int64_t width = tokens * config.width + numbers;
  if (width > kMaxJoinedWidth) {
    fields.Fail(Cat("hidden_size ", config.width, ": a row of ", tokens, " tokens and ", numbers,
                    " numbers is ", width, " wide, above ", kMaxJoinedWidth));
  }
  return width;
}

absl::StatusOr<std::vector<std::vector<float>>> LoadVectors(const WeightScope& scope, const std::string& name,
                                                            int64_t rows, int64_t width) {
  ASSIGN_OR_RETURN(const std::vector<float> all, scope.Floats(name, {rows, width}));
  std::vector<std::vector<float>> vectors;
  for (int64_t r = 0; r < rows; ++r)
    vectors.emplace_back(all.begin() + r * width, all.begin() + (r + 1) * width);
  return vectors;
}

absl::StatusOr<std::vector<TableToken>> LoadCategoricalTokens(const TableColumns& columns,
                                                              const WeightScope& scope,
                                                              std::vector<std::vector<float>> base,
                                                              int64_t begin) {
  std::vector<TableToken> tokens;
  for (int64_t j = 0; j < columns.num_categorical(); ++j) {
    const int64_t width = std::ssize(base[j]) - begin;
    ASSIGN_OR_RETURN(Tensor values,
                     (scope / Cat("categorical.", j)).Get("weight", {columns.categories[j] + 1, width}));
    tokens.push_back(
        {.base = std::move(base[j]), .id = j, .values = std::move(values), .values_begin = begin});
  }
  return tokens;
}

TableTokens::TableTokens(std::vector<TableToken> tokens) : tokens_(std::move(tokens)) {
  for (const TableToken& token : tokens_) {
    ids_ += token.id >= 0;
    numbers_ += token.number >= 0;
  }
}

int64_t TableTokens::bytes() const {
  int64_t sum = 0;
  for (const TableToken& token : tokens_) {
    if (token.id >= 0) sum += token.values.size() * SizeOf(token.values.dtype);
  }
  return sum;
}

void TableTokens::Run(const MovedFrom& from, int64_t first, Matrix<float> to) const {
  for (int64_t r = 0; r < to.rows; ++r) {
    const int64_t at = first + r;
    Make(tokens_[at % count()], from, at / count(), {to.row(r), static_cast<size_t>(to.cols)});
  }
}

void TableTokens::Make(const TableToken& token, const MovedFrom& from, int64_t row,
                       std::span<float> to) const {
  std::ranges::fill(to, 0.0f);
  if (token.id >= 0) {
    const int64_t width = std::ssize(to) - token.values_begin, id = from.ids[row * ids_ + token.id];
    ToFloats(token.values, id * width, width, &to[token.values_begin]);
  }
  if (token.number >= 0) {
    const float number = from.numbers[row * numbers_ + token.number];
    for (size_t c = 0; c < to.size(); ++c) to[c] = number * token.factor[c];
  }
  for (size_t c = 0; c < to.size(); ++c) to[c] += token.base[c];
}

void JoinRows::Run(const MovedFrom& from, int64_t first, Matrix<float> to) const {
  const int64_t joined = std::min(each_ * from.rows.cols, to.cols), numbers = to.cols - joined;
  for (int64_t r = 0; r < to.rows; ++r) {
    const int64_t row = first + r;
    for (int64_t c = 0, i = row * each_; c < joined; c += from.rows.cols, ++i)
      std::copy_n(from.rows.row(i), std::min(from.rows.cols, joined - c), to.row(r) + c);
    if (numbers > 0) std::copy_n(&from.numbers[row * numbers], numbers, to.row(r) + joined);
  }
}

void SplitRows::Run(const MovedFrom& from, int64_t first, Matrix<float> to) const {
  for (int64_t r = 0; r < to.rows; ++r) {
    const int64_t row = first + r;
    std::copy_n(from.rows.row(row / each_) + row % each_ * to.cols, to.cols, to.row(r));
  }
}

}  // namespace heed
