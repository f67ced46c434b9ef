// Jinja's tests, `value is name` and `value is name(argument)`. A line in the table of value_tests.cc each.
#ifndef HEED_ENGINE_TEMPLATES_VALUE_TESTS_H_
#define HEED_ENGINE_TEMPLATES_VALUE_TESTS_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/templates/arguments.h"
#include "engine/templates/value.h"

namespace heed::jinja {

using ValueTest = absl::StatusOr<bool> (*)(const Value& value, const Arguments& arguments, Budget& budget);

// nullptr: there is none of this name.
ValueTest FindTest(std::string_view name);

// `item in container`.
absl::StatusOr<bool> Contains(const Value& container, const Value& item, Budget& budget);

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_VALUE_TESTS_H_
