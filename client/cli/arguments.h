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

#include <algorithm>
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
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/terminal.h"
#include "engine/base/status.h"

namespace heed::cli {

// Of a number, or of a duration's seconds; both ends belong to it, but with `above_min`.
struct Limits {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;
};

// A flag as help and completion show it.
struct FlagEntry {
  std::string name, help;
  std::string fallback;  // the default
  bool is_bool = false;
  bool repeats = false;            // may be given more than once
  bool is_path = false;            // its values are files or folders
  std::vector<std::string> words;  // its values, where only these are possible
  std::function<absl::Status(std::string_view value)> set;
};

// What help says of it: its text, and its default where it has one.
std::string HelpOf(const FlagEntry& flag);

// What a variable of type T holds: T, or what the optional may hold.
template <typename T>
struct FlagValue {
  using Type = T;
};
template <typename T>
struct FlagValue<std::optional<T>> {
  using Type = T;
};

class Arguments {
 public:
  // `usage`: what follows the command's name, "[flags] TEXT...". `words`: what was typed there.
  Arguments(std::string command, std::string usage, std::string summary, std::vector<std::string> words);

  // T: bool, int32_t, uint64_t, double, absl::Duration, std::string, a type with AbslParseFlag, std::optional
  // of these. The variable's value when this is called is the default that help shows. The variable must
  // outlive this. The entry that is given back is good until the next call.
  template <typename T>
  FlagEntry& Flag(std::string_view name, T* value, std::string_view help, Limits limits = {});
  // May be given more than once.
  template <typename T>
  FlagEntry& Flag(std::string_view name, std::vector<T>* values, std::string_view help, Limits limits = {});
  // One of these words, each with what it stands for. T may be an optional.
  template <typename T>
  using Words = std::vector<std::pair<std::string_view, T>>;
  template <typename T>
  FlagEntry& Choice(std::string_view name, T* value, std::string_view help,
                    const Words<typename FlagValue<T>::Type>& words);

  // Sets the variables. Empty: go on. Else the command has ended with this exit status: --help was asked for
  // and given, or a word is wrong, which has been said. `max_texts`: how many words may be no flags.
  std::optional<int> Parse(Terminal& terminal, size_t max_texts = std::numeric_limits<size_t>::max());

  // After Parse(). A mistake that only the flags together show: says it, and gives the exit status.
  int Wrong(Terminal& terminal, absl::string_view message) const;
  // "--raw and --threshold exclude each other: WHY".
  int Excludes(Terminal& terminal, std::string_view flag, std::string_view other, std::string_view why) const;
  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<FlagEntry>& flags() const { return flags_; }

 private:
  absl::Status TakeAll();
  absl::Status TakeFlag(std::string_view word, const std::string* next, bool* used_next);
  const FlagEntry* Find(std::string_view name) const;
  absl::Status Unknown(std::string_view word) const;
  std::string Help() const;

  std::string command_, usage_, summary_;
  std::vector<std::string> words_, texts_;
  std::vector<FlagEntry> flags_;
  bool help_ = false;
};

// The nearest of `names` to what somebody typed; empty if none is near.
std::string_view Nearest(std::string_view typed, const std::vector<std::string_view>& names);

// ------------------------------------------------------------------------------------------------- how
// values are read

// "--top=2000: must be a whole number of 0 to 1000".
absl::Status WrongValue(std::string_view name, std::string_view text, std::string_view kind, Limits limits);

// "--as=music: must be text, tokens or pair".
absl::Status WrongWord(std::string_view name, std::string_view text, const std::vector<std::string>& words);

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
  if (limits.above_min && number == limits.min) return false;
  return number >= limits.min && number <= limits.max;  // false for NaN
}

template <typename T>
absl::StatusOr<T> ParseFlagValue(std::string_view name, std::string_view text, Limits limits) {
  T parsed;
  std::string error;
  if (!absl::ParseFlag(absl::string_view(text.data(), text.size()), &parsed, &error) ||
      !Within(parsed, limits)) {
    return WrongValue(name, text, KindOfFlag<T>(error), limits);
  }
  return parsed;
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
FlagEntry& Arguments::Flag(std::string_view name, T* value, std::string_view help, Limits limits) {
  using Value = typename FlagValue<T>::Type;
  auto set = [=, name = std::string(name)](std::string_view text) -> absl::Status {
    ASSIGN_OR_RETURN(*value, ParseFlagValue<Value>(name, text, limits));
    return absl::OkStatus();
  };
  flags_.push_back({.name = std::string(name),
                    .help = std::string(help),
                    .fallback = DefaultOfFlag(*value),
                    .is_bool = std::is_same_v<Value, bool>,
                    .set = set});
  return flags_.back();
}

template <typename T>
FlagEntry& Arguments::Flag(std::string_view name, std::vector<T>* values, std::string_view help,
                           Limits limits) {
  auto set = [=, name = std::string(name)](std::string_view text) -> absl::Status {
    ASSIGN_OR_RETURN(T value, ParseFlagValue<T>(name, text, limits));
    values->push_back(std::move(value));
    return absl::OkStatus();
  };
  flags_.push_back({.name = std::string(name),
                    .help = Cat(help, "; may be given more than once"),
                    .repeats = true,
                    .set = set});
  return flags_.back();
}

template <typename T>
FlagEntry& Arguments::Choice(std::string_view name, T* value, std::string_view help,
                             const Words<typename FlagValue<T>::Type>& words) {
  FlagEntry entry{.name = std::string(name), .help = std::string(help)};
  for (const auto& [word, meaning] : words) {
    entry.words.emplace_back(word);
    if (entry.fallback.empty() && *value == meaning) entry.fallback = word;
  }
  entry.set = [=, name = entry.name, names = entry.words](std::string_view text) -> absl::Status {
    const auto found = std::ranges::find(names, text);
    if (found == names.end()) return WrongWord(name, text, names);
    *value = words[found - names.begin()].second;
    return absl::OkStatus();
  };
  flags_.push_back(std::move(entry));
  return flags_.back();
}

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_ARGUMENTS_H_
