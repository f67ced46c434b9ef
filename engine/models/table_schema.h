// What the columns of a table are called, and how a cell becomes what a model reads. The key "columns" of
// config.json, of models that read tables:
//   {"categorical": [{"name", "values": ["Private", ...], "unknown" (absent)}, ...],
//    "numerical": [{"name", "mean" (0), "deviation" (1)}, ...]}
// in the order of the tensors' columns. values[i] has the id i + 1, and a cell that is missing the id 0;
// "unknown" is the one of the values that stands for all that are not listed. Of a number the model reads
// (number - mean) / deviation, and 0, the mean, of one that is missing.
#ifndef HEED_ENGINE_MODELS_TABLE_SCHEMA_H_
#define HEED_ENGINE_MODELS_TABLE_SCHEMA_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json.h"

namespace heed {

struct CategoricalColumn {
  std::string name;
  std::vector<std::string> values;
  std::map<std::string, int32_t, std::less<>> ids;  // of the values
  std::optional<std::string> unknown;

  // 0 of an empty text, which is a missing value; none of a value that the model does not know.
  std::optional<int32_t> IdOf(std::string_view value) const;
};

struct NumericalColumn {
  std::string name;
  double mean = 0, deviation = 1;

  double Normalized(double number) const { return (number - mean) / deviation; }
};

struct TableSchema {
  std::vector<CategoricalColumn> categorical;
  std::vector<NumericalColumn> numerical;

  bool empty() const { return categorical.empty() && numerical.empty(); }
  // Its place among its kind; -1 if there is none of that name.
  int64_t Categorical(std::string_view name) const;
  int64_t Numerical(std::string_view name) const;

  std::map<std::string, int64_t, std::less<>> categorical_places, numerical_places;  // by name
};

// The key "columns"; empty where it is absent. `categories`: of each categorical column, how many values it
// has. What is wrong fails the fields.
TableSchema ReadTableSchema(JsonFields& fields, std::span<const int64_t> categories, int64_t num_numerical);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_TABLE_SCHEMA_H_
