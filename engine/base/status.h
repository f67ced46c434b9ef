// Errors as values: the macros and the one-letter helpers that every file uses.
#ifndef HEED_ENGINE_BASE_STATUS_H_
#define HEED_ENGINE_BASE_STATUS_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace heed {

// Debian's absl::string_view is a type of its own, which StrCat takes and std's it does not.
template <typename Part>
const Part& ForStrCat(const Part& part) {
  return part;
}
inline absl::string_view ForStrCat(std::string_view part) { return {part.data(), part.size()}; }

// Cat("input has ", 7, " tokens"): the text of a message.
template <typename... Parts>
std::string Cat(const Parts&... parts) {
  return absl::StrCat(ForStrCat(parts)...);
}

// INVALID_ARGUMENT with the joined parts as its message: the caller's mistake, named.
template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(Cat(parts...));
}

}  // namespace heed

#define HEED_CONCAT_(a, b) a##b
#define HEED_CONCAT(a, b) HEED_CONCAT_(a, b)

// Returns the status from the enclosing function unless it is OK.
#define RETURN_IF_ERROR(expression)      \
  do {                                   \
    absl::Status status_ = (expression); \
    if (!status_.ok()) return status_;   \
  } while (false)

// ASSIGN_OR_RETURN(Tensor bias, scope.Get("bias", {width}));
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_(HEED_CONCAT(status_or_, __COUNTER__), declaration, expression)
#define ASSIGN_OR_RETURN_(temporary, declaration, expression) \
  auto temporary = (expression);                              \
  if (!temporary.ok()) return std::move(temporary).status();  \
  declaration = *std::move(temporary)

#endif  // HEED_ENGINE_BASE_STATUS_H_
