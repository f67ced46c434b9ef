// What operators do to values: arithmetic, attributes, items and slices, as in Python.
#ifndef HEED_ENGINE_TEMPLATES_OPERATORS_H_
#define HEED_ENGINE_TEMPLATES_OPERATORS_H_

#include <array>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/templates/value.h"

namespace heed::jinja {

// `name`: + - * / // % **. INVALID_ARGUMENT for types that do not go together, and integers beyond 64 bits.
absl::StatusOr<Value> Operate(std::string_view name, const Value& left, const Value& right, Budget& budget);
absl::StatusOr<Value> Negative(const Value& value);

// value[key], and Undefined that says what is missing; INVALID_ARGUMENT where the value itself is Undefined.
absl::StatusOr<Value> ItemOf(const Value& value, const Value& key, Budget& budget);
// value.name: a method comes before an item.
absl::StatusOr<Value> MemberOf(const Value& value, std::string_view name, Budget& budget);
// value[begin:end:step], each of which may be Undefined.
absl::StatusOr<Value> SliceOf(const Value& value, const std::array<Value, 3>& bounds, Budget& budget);
// A dict's entries: a list of tuples.
absl::StatusOr<Value> PairsOf(const Mapping& mapping, Budget& budget);

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_OPERATORS_H_
