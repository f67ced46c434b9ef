// The words after `heed COMMAND`: flags, each bound to a variable and checked against its limits, and texts.
//
//   int32_t top = 1;
//   arguments.Flag("top", &top, "labels to show, best first; 0: all", {0, 1000});
//   if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;
//
// --flag=value and --flag value; --flag and --noflag for bool; '-' and '_' in names are the same; "--" ends
// the flags, "-" is a text. Values are read as Abseil's flags are ("1.5s" for a duration), by
// absl::ParseFlag: its flags themselves belong to a whole process, ours to one command.
#ifndef HEED_CLIENT_CLI_ARGUMENTS_H_
#define HEED_CLIENT_CLI_ARGUMENTS_H_

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/flags/marshalling.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cli/terminal.h"
#include "engine/base/status.h"

namespace heed {

// Of a number, or of a duration's seconds; both ends belong to it.
struct Limits {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

class Arguments {
 public:
  // `usage`: what follows the command's name, "[flags] TEXT...". `words`: what was typed there.
  Arguments(std::string command, std::string usage, std::string summary, std::vector<std::string> words);

  // T: bool, int32_t, uint64_t, double, absl::Duration, std::string, a type with AbslParseFlag, std::optional
  // of these. The variable's value when this is called is the default that help shows. The variable must
  // outlive this.
  template <typename T>
  void Flag(std::string_view name, T* value, std::string_view help, Limits limits = {});
  // May be given more than once.
  void Flag(std::string_view name, std::vector<std::string>* values, std::string_view help);

  // Sets the variables. Empty: go on. Else the command has ended with this exit status: --help was asked for
  // and given, or a word is wrong, which has been said. `max_texts`: how many words may be no flags.
  std::optional<int> Parse(Terminal& terminal, size_t max_texts = std::numeric_limits<size_t>::max());

  // After Parse(). A mistake that only the flags together show: says it, and gives the exit status.
  int Wrong(Terminal& terminal, absl::string_view message) const;
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  struct Entry {
    std::string name, help, fallback;
    bool is_bool = false;
    std::function<absl::Status(std::string_view value)> set;
  };

  absl::Status TakeAll();
  absl::Status TakeFlag(std::string_view word, const std::string* next, bool* used_next);
  const Entry* Find(std::string_view name) const;
  absl::Status Unknown(std::string_view word) const;
  std::string Help() const;

  std::string command_, usage_, summary_;
  std::vector<std::string> words_, texts_;
  std::vector<Entry> flags_;
  bool help_ = false;
};

// The nearest of `names` to what somebody typed; empty if none is near.
std::string_view Nearest(std::string_view typed, const std::vector<std::string_view>& names);

// ------------------------------------------------------------------------------------------------- how
// values are read

template <typename T>
struct FlagValue {
  using Type = T;
};
template <typename T>
struct FlagValue<std::optional<T>> {
  using Type = T;
};

// "--top=2000: must be a whole number of 0 to 1000".
absl::Status WrongValue(std::string_view name, std::string_view text, std::string_view kind, Limits limits);

template <typename T>
std::string_view KindOfFlag(std::string_view error) {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_integral_v<T>) return "a whole number";
  if constexpr (std::is_floating_point_v<T>) return "a number";
  if constexpr (std::is_same_v<T, absl::Duration>) return "a duration such as 1.5s";
  return error;  // of AbslParseFlag
}

template <typename T>
bool Within(const T& value, Limits limits) {
  double number = 0;
  if constexpr (std::is_arithmetic_v<T>) number = static_cast<double>(value);
  if constexpr (std::is_same_v<T, absl::Duration>) number = absl::ToDoubleSeconds(value);
  return number >= limits.min && number <= limits.max;  // false for NaN
}

template <typename T>
std::string DefaultOfFlag(const T& value) {
  return absl::UnparseFlag(value);
}
inline std::string DefaultOfFlag(absl::Duration value) { return absl::FormatDuration(value); }
template <typename T>
std::string DefaultOfFlag(const std::optional<T>& value) {
  return value ? DefaultOfFlag(*value) : "";
}

template <typename T>
void Arguments::Flag(std::string_view name, T* value, std::string_view help, Limits limits) {
  using Value = typename FlagValue<T>::Type;
  auto set = [=, name = std::string(name)](std::string_view text) -> absl::Status {
    Value parsed;
    std::string error;
    if (!absl::ParseFlag(absl::string_view(text.data(), text.size()), &parsed, &error) ||
        !Within(parsed, limits)) {
      return WrongValue(name, text, KindOfFlag<Value>(error), limits);
    }
    *value = std::move(parsed);
    return absl::OkStatus();
  };
  flags_.push_back(
      {std::string(name), std::string(help), DefaultOfFlag(*value), std::is_same_v<Value, bool>, set});
}

}  // namespace heed

#endif  // HEED_CLIENT_CLI_ARGUMENTS_H_
