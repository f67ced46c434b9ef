#include "client/cli/arguments.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace heed::cli {
namespace {

// Letters to change, insert or leave out on the way from one word to the other (Levenshtein 1966).
size_t Distance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t changed = diagonal + (from[i - 1] != to[j - 1]);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string WithUnderscores(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '-', '_');
  return result;
}

std::string LimitsText(Limits limits) {
  if (std::isinf(limits.min) && std::isinf(limits.max)) return "";
  if (std::isinf(limits.max)) return absl::StrFormat(" of at least %.10g", limits.min);
  if (limits.above_min) return absl::StrFormat(" above %.10g and at most %.10g", limits.min, limits.max);
  return absl::StrFormat(" of %.10g to %.10g", limits.min, limits.max);
}

}  // namespace

std::string HelpOf(const FlagEntry& flag) {
  const bool shows = !flag.fallback.empty() && !flag.is_bool;
  return shows ? Cat(flag.help, " (default ", flag.fallback, ")") : flag.help;
}

std::string_view Nearest(std::string_view typed, const std::vector<std::string_view>& names) {
  std::string_view best;
  size_t least = std::min(typed.size(), 1 + std::max<size_t>(2, typed.size() / 3));
  for (const std::string_view name : names) {
    const size_t distance = Distance(typed, name);
    if (distance >= least) continue;
    least = distance;
    best = name;
  }
  return best;
}

absl::Status WrongValue(std::string_view name, std::string_view text, std::string_view kind, Limits limits) {
  return Invalid("--", name, "=", text, ": must be ", kind, LimitsText(limits));
}

absl::Status WrongWord(std::string_view name, std::string_view text, const std::vector<std::string>& words) {
  const std::string but_last = absl::StrJoin(words.begin(), words.end() - 1, ", ");
  return Invalid("--", name, "=", text, ": must be ", but_last, " or ", words.back());
}

Arguments::Arguments(std::string command, std::string usage, std::string summary,
                     std::vector<std::string> words)
    : command_(std::move(command)),
      usage_(std::move(usage)),
      summary_(std::move(summary)),
      words_(std::move(words)) {
  Flag("help", &help_, "this text");
}

std::optional<int> Arguments::Parse(Terminal& terminal, size_t max_texts) {
  absl::Status status = TakeAll();
  if (status.ok() && help_) {
    terminal.out << Help();
    return Finish(terminal, kDone);
  }
  if (status.ok() && texts_.size() > max_texts) {
    status = Invalid("'", texts_[max_texts], "' is one word too many: usage: heed ", command_, " ", usage_);
  }
  if (!status.ok()) return FailUsage(terminal, command_, status);
  return std::nullopt;
}

int Arguments::Wrong(Terminal& terminal, absl::string_view message) const {
  return FailUsage(terminal, command_, Invalid(message));
}

int Arguments::Excludes(Terminal& terminal, std::string_view flag, std::string_view other,
                        std::string_view why) const {
  return Wrong(terminal, Cat("--", flag, " and --", other, " exclude each other: ", why));
}

absl::Status Arguments::TakeAll() {
  for (size_t i = 0; i < words_.size(); ++i) {
    const std::string& word = words_[i];
    if (word == "--") {
      texts_.insert(texts_.end(), words_.begin() + i + 1, words_.end());
      return absl::OkStatus();
    }
    if (word.size() < 2 || word[0] != '-') {
      texts_.push_back(word);
      continue;
    }
    bool used_next = false;
    RETURN_IF_ERROR(TakeFlag(word, i + 1 < words_.size() ? &words_[i + 1] : nullptr, &used_next));
    i += used_next;
  }
  return absl::OkStatus();
}

absl::Status Arguments::TakeFlag(std::string_view word, const std::string* next, bool* used_next) {
  const size_t equals = word.find('=');
  const std::string name = WithUnderscores(word.substr(2, equals == word.npos ? equals : equals - 2));
  const FlagEntry* flag = word[1] == '-' ? Find(name) : nullptr;
  if (flag != nullptr && equals != word.npos) return flag->set(word.substr(equals + 1));
  if (flag != nullptr && flag->is_bool) return flag->set("true");
  if (flag != nullptr) {
    if (next == nullptr || next->starts_with("--"))
      return Invalid("--", name, " needs a value: --", name, "=...");
    *used_next = true;
    return flag->set(*next);
  }
  const FlagEntry* denied = name.starts_with("no") && equals == word.npos ? Find(name.substr(2)) : nullptr;
  if (denied != nullptr && denied->is_bool) return denied->set("false");
  return Unknown(word.substr(0, equals));
}

const FlagEntry* Arguments::Find(std::string_view name) const {
  for (const FlagEntry& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

absl::Status Arguments::Unknown(std::string_view word) const {
  const std::string name = WithUnderscores(word.substr(std::min(word.size(), word.find_first_not_of('-'))));
  std::vector<std::string_view> names;
  for (const FlagEntry& flag : flags_) names.push_back(flag.name);
  const std::string_view nearest = Nearest(name, names);
  if (!nearest.empty()) return Invalid("there is no flag ", word, "; did you mean --", nearest, "?");
  return Invalid("there is no flag ", word, " (a text that begins with '-' goes after --)");
}

std::string Arguments::Help() const {
  std::string help = Cat("heed ", command_, " ", usage_, "\n\n", summary_, "\n\n");
  for (const FlagEntry& flag : flags_)
    absl::StrAppendFormat(&help, "  --%-18s %s\n", flag.name, HelpOf(flag));
  return help;
}

}  // namespace heed::cli
