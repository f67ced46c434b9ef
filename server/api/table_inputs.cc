#include "server/api/table_inputs.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "server/error.h"

namespace heed {
namespace {

// Of a column that is not of the kind in which the row names it.
absl::Status NoColumn(const std::string& name, std::string_view kind, bool of_other_kind) {
  if (of_other_kind) return Invalid("the column ", Shown(name), " is not ", kind);
  return Invalid("the model has no column ", Shown(name));
}

// A value that is left out has the id 0.
absl::Status ReadCategories(const v1::Row& row, const TableSchema& schema, int32_t* ids) {
  for (const auto& [name, value] : row.categories()) {
    const int64_t place = schema.Categorical(name);
    if (place < 0) return NoColumn(name, "categorical", schema.Numerical(name) >= 0);
    const std::optional<int32_t> id = schema.categorical[place].IdOf(value);
    if (!id) {
      return Invalid("the column ", Shown(name), " has the value ", Shown(value), ", which is none of its ",
                     schema.categorical[place].values.size(), " values");
    }
    ids[place] = *id;
  }
  return absl::OkStatus();
}

// A number that is left out is 0, the mean.
absl::Status ReadNumbers(const v1::Row& row, const TableSchema& schema, float* numbers) {
  for (const auto& [name, number] : row.numbers()) {
    const int64_t place = schema.Numerical(name);
    if (place < 0) return NoColumn(name, "numerical", schema.Categorical(name) >= 0);
    const double normalized = schema.numerical[place].Normalized(number);
    if (!(std::abs(normalized) <= std::numeric_limits<float>::max()))
      return Invalid("the column ", Shown(name), " has the number ", number,
                     ", which is not finite as a float", " once it is normalised");
    numbers[place] = static_cast<float>(normalized);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AppendRow(const v1::Row& row, const TableSchema& schema, const std::string& where,
                       TableCells* cells) {
  if (row.numbers().empty() && row.categories().empty())
    return AtField(Error(ErrorReason::kInputEmpty, "the row has no column"), where);
  const size_t ids = cells->ids.size(), numbers = cells->numbers.size();
  cells->ids.resize(ids + schema.categorical.size());
  cells->numbers.resize(numbers + schema.numerical.size());
  RETURN_IF_ERROR(AtField(ReadCategories(row, schema, cells->ids.data() + ids), where + ".categories"));
  return AtField(ReadNumbers(row, schema, cells->numbers.data() + numbers), where + ".numbers");
}

v1::TableInput ToMessage(const TableSchema& schema) {
  v1::TableInput message;
  for (const CategoricalColumn& column : schema.categorical) {
    v1::TableInput::Categorical& out = *message.add_categorical();
    out.set_name(column.name);
    out.mutable_values()->Add(column.values.begin(), column.values.end());
    out.set_unknown(column.unknown.value_or(""));
  }
  for (const NumericalColumn& column : schema.numerical) {
    v1::TableInput::Numerical& out = *message.add_numerical();
    out.set_name(column.name);
    out.set_mean(column.mean);
    out.set_deviation(column.deviation);
  }
  return message;
}

}  // namespace heed
