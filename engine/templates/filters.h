// Jinja's filters, `value | name(arguments)`. A line in the table of filters.cc each.
#ifndef HEED_ENGINE_TEMPLATES_FILTERS_H_
#define HEED_ENGINE_TEMPLATES_FILTERS_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/templates/arguments.h"
#include "engine/templates/value.h"

namespace heed::jinja {

using Filter = absl::StatusOr<Value> (*)(const Value& value, const Arguments& arguments, Budget& budget);

// nullptr: there is none of this name.
Filter FindFilter(std::string_view name);
// Whether the first argument is the name of a filter (map) or of a test (select and its kin).
bool TakesFilter(std::string_view name);
bool TakesTest(std::string_view name, size_t* place);  // place: among the arguments

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_FILTERS_H_
