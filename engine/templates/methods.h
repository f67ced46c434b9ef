// Methods of text, dicts, lists and `loop`; functions that every template has; what `loop` knows.
#ifndef HEED_ENGINE_TEMPLATES_METHODS_H_
#define HEED_ENGINE_TEMPLATES_METHODS_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/templates/arguments.h"
#include "engine/templates/value.h"

namespace heed::jinja {

// Whether a value of this kind has this method.
bool HasMethod(const Value& value, std::string_view name);
// The name, if any kind of value has such a method, for as long as the program runs; else empty.
std::string_view MethodName(std::string_view name);
// value.name(arguments), which it has.
absl::StatusOr<Value> CallMethod(const Value& value, std::string_view name, const Arguments& arguments,
                                 Budget& budget);

// loop.index and its like.
absl::StatusOr<Value> LoopMember(const Loop& loop, std::string_view name);

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_METHODS_H_
