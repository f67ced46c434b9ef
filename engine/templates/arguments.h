// What a filter, test, method, function or macro is called with.
#ifndef HEED_ENGINE_TEMPLATES_ARGUMENTS_H_
#define HEED_ENGINE_TEMPLATES_ARGUMENTS_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/templates/value.h"

namespace heed::jinja {

struct Arguments {
  std::vector<Value> positional{};
  std::vector<std::pair<std::string, Value>> named{};
};

// The arguments in the order of `names`, of which the first `required` must be there; what is not given is
// Undefined. INVALID_ARGUMENT, which names `what`, for too many, too few or unknown ones.
absl::StatusOr<std::vector<Value>> Bind(const Arguments& given, std::string_view what,
                                        std::initializer_list<std::string_view> names, size_t required = 0);

// INVALID_ARGUMENT unless it is an integer, text, ...; the message begins with `what`.
absl::StatusOr<int64_t> IntegerOf(const Value& value, std::string_view what);
absl::StatusOr<const std::string*> TextOf(const Value& value, std::string_view what);
// What a loop over it goes through: items, keys, characters; of Undefined, nothing.
absl::StatusOr<std::shared_ptr<const Sequence>> ItemsOf(const Value& value, Budget& budget);
absl::StatusOr<int64_t> LengthOf(const Value& value, Budget& budget);

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_ARGUMENTS_H_
