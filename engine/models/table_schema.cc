#include "engine/models/table_schema.h"

#include "engine/base/status.h"

namespace heed {
namespace {

constexpr size_t kLongestName = 256;  // of a column or a value, in bytes
constexpr double kLargest = 1e30;

void CheckName(const std::string& name, std::string_view key, JsonFields& fields) {
  if (name.empty() || name.size() > kLongestName)
    fields.Fail(Cat(key, ": has ", name.size(), " bytes; 1 to ", kLongestName, " can be served"));
}

// A list of so many objects.
const Json& Columns(JsonFields& fields, const std::string& key, int64_t count) {
  static const Json none = Json::array();
  const Json& list = fields.Raw(key);
  const bool absent = list.is_null() && count == 0;
  if (list.is_array() && std::ssize(list) == count) return list;
  if (!absent) fields.Fail(Cat(key, ": ", Shown(list), "; the model has ", count, " such columns"));
  return none;
}

void ReadValues(const Json& values, int64_t count, JsonFields& fields, CategoricalColumn& column) {
  if (!values.is_array() || std::ssize(values) != count)
    return fields.Fail(Cat("values: is no list of ", count, ", as categories has it"));
  for (const Json& value : values) {
    if (!value.is_string()) return fields.Fail(Cat("values: ", Shown(value), " is no text"));
    const std::string& text = column.values.emplace_back(value.get<std::string>());
    CheckName(text, "values", fields);
    if (!column.ids.emplace(text, static_cast<int32_t>(std::ssize(column.values))).second)
      fields.Fail(Cat("values: ", Shown(value), " is there twice"));
  }
}

CategoricalColumn ReadCategorical(const Json& json, std::string where, int64_t count, JsonFields& all) {
  CategoricalColumn column;
  JsonFields fields(json, std::move(where));
  column.name = fields.String("name", "");
  CheckName(column.name, "name", fields);
  ReadValues(fields.Raw("values"), count, fields, column);
  if (fields.Has("unknown")) {
    column.unknown = fields.String("unknown", "");
    if (!column.ids.contains(*column.unknown))
      fields.Fail(Cat("unknown: ", Shown(*column.unknown), " is none of the values"));
  }
  all.Fail(fields.Finish());
  return column;
}

NumericalColumn ReadNumerical(const Json& json, std::string where, JsonFields& all) {
  JsonFields fields(json, std::move(where));
  NumericalColumn column;
  column.name = fields.String("name", "");
  CheckName(column.name, "name", fields);
  column.mean = fields.Number("mean", 0, -kLargest, kLargest);
  column.deviation = fields.Number("deviation", 1, 1 / kLargest, kLargest);
  all.Fail(fields.Finish());
  return column;
}

// No two columns have one name.
void Place(const std::string& name, int64_t place, std::map<std::string, int64_t, std::less<>>& places,
           const TableSchema& schema, JsonFields& fields) {
  if (schema.Categorical(name) >= 0 || schema.Numerical(name) >= 0)
    fields.Fail(Cat("name: ", Shown(name), " is of two columns"));
  places.emplace(name, place);
}

int64_t PlaceOf(const std::map<std::string, int64_t, std::less<>>& places, std::string_view name) {
  const auto found = places.find(name);
  return found == places.end() ? -1 : found->second;
}

}  // namespace

std::optional<int32_t> CategoricalColumn::IdOf(std::string_view value) const {
  if (value.empty()) return 0;
  auto found = ids.find(value);
  if (found == ids.end() && unknown) found = ids.find(*unknown);
  return found == ids.end() ? std::nullopt : std::optional(found->second);
}

int64_t TableSchema::Categorical(std::string_view name) const { return PlaceOf(categorical_places, name); }
int64_t TableSchema::Numerical(std::string_view name) const { return PlaceOf(numerical_places, name); }

TableSchema ReadTableSchema(JsonFields& fields, std::span<const int64_t> categories, int64_t num_numerical) {
  TableSchema schema;
  if (!fields.Has("columns")) {
    fields.Ignore("columns");
    return schema;
  }
  JsonFields own(fields.Raw("columns"), fields.Name("columns"));
  const Json& categorical = Columns(own, "categorical", std::ssize(categories));
  for (int64_t j = 0; j < std::ssize(categorical); ++j) {
    schema.categorical.push_back(
        ReadCategorical(categorical[j], Cat(own.Name("categorical"), "[", j, "]"), categories[j], own));
    Place(schema.categorical.back().name, j, schema.categorical_places, schema, own);
  }
  const Json& numerical = Columns(own, "numerical", num_numerical);
  for (int64_t j = 0; j < std::ssize(numerical); ++j) {
    schema.numerical.push_back(ReadNumerical(numerical[j], Cat(own.Name("numerical"), "[", j, "]"), own));
    Place(schema.numerical.back().name, j, schema.numerical_places, schema, own);
  }
  fields.Fail(own.Finish());
  return schema;
}

}  // namespace heed
