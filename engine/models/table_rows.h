// Rows of a table as a model's input: a row has categorical columns, whose values are ids (1, 2, ...; 0 is a
// missing one), and numerical columns. Each row of the table becomes a group of tokens that attend alone, or
// one row of numbers; a model answers for each row of the table.
#ifndef HEED_ENGINE_MODELS_TABLE_ROWS_H_
#define HEED_ENGINE_MODELS_TABLE_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/models/config.h"
#include "engine/models/row_move.h"
#include "engine/models/stack_recipe.h"
#include "engine/models/table_schema.h"
#include "engine/tensor/tensor.h"
#include "engine/weights/weights.h"

namespace heed {

struct TableColumns {
  std::vector<int64_t> categories;  // of each categorical column, how many values
  int64_t num_numerical = 0;
  TableSchema schema;  // empty: the columns have no names

  int64_t num_categorical() const { return std::ssize(categories); }
  // What a request brings; ids are 0 .. the number of values.
  void Describe(LoadedStack& loaded) const;
};

// Keys `categories`, `num_numerical` and `columns`; at least one column. Fails on keys that mean tokens, and
// on heads other than "classification", which answers for each row and is the default.
TableColumns ReadTableColumns(JsonFields& fields, ModelConfig& config);
// How wide a table's row is, all of its tokens side by side; beyond what is served the fields fail.
int64_t CheckJoinedWidth(int64_t tokens, int64_t numbers, JsonFields& fields, const ModelConfig& config);

// How a token is made of one column, or of none: base + values[id] + number * factor.
struct TableToken {
  std::vector<float> base;      // [width]
  int64_t id = -1;              // of the row's ids: the categorical column's place; -1: it is of none
  Tensor values{};              // that column's, a row for each id
  int64_t values_begin = 0;     // the column of the token where they begin
  int64_t number = -1;          // of the row's numbers: the numerical column's place; -1: it is of none
  std::vector<float> factor{};  // [width]
};

// Rows of vectors, [rows, width] in the file.
absl::StatusOr<std::vector<std::vector<float>>> LoadVectors(const WeightScope& scope, const std::string& name,
                                                            int64_t rows, int64_t width);
// A token of each categorical column: base[J] and a row of scope/categorical.J.weight [values + 1, width] at
// the token's column `begin`.
absl::StatusOr<std::vector<TableToken>> LoadCategoricalTokens(const TableColumns& columns,
                                                              const WeightScope& scope,
                                                              std::vector<std::vector<float>> base,
                                                              int64_t begin = 0);

// Makes the tokens of each row of the table, one after another.
class TableTokens : public RowMove {
 public:
  explicit TableTokens(std::vector<TableToken> tokens);
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override;

  int64_t count() const { return std::ssize(tokens_); }  // of a row
  int64_t bytes() const;                                 // of the columns' values

 private:
  void Make(const TableToken& token, const MovedFrom& from, int64_t row, std::span<float> to) const;

  std::vector<TableToken> tokens_;
  int64_t ids_ = 0, numbers_ = 0;  // of a row
};

// Row i: the first numbers of the source's rows i * each, i * each + 1, ... one after another, as many as it
// has room for; behind them the numbers that the request has for row i.
class JoinRows : public RowMove {
 public:
  explicit JoinRows(int64_t each) : each_(each) {}
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override;

 private:
  int64_t each_;
};

// The other way round: a row's numbers as so many rows.
class SplitRows : public RowMove {
 public:
  explicit SplitRows(int64_t each) : each_(each) {}
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override;

 private:
  int64_t each_;
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_TABLE_ROWS_H_
