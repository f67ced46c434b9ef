#include "engine/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 32
#include <pcre2.h>

#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "engine/text/regex_syntax.h"
#include "engine/text/unicode.h"

namespace heed {
namespace {

constexpr size_t kMaxPatternBytes = 16 << 10;
constexpr uint32_t kMaxSteps = 100'000'000;         // of one match
constexpr uint32_t kMaxMatchKilobytes = 256 << 10;  // that it may keep to go back to

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};

std::string Explained(int error) {
  uint32_t text[256];
  const int length = pcre2_get_error_message(error, text, std::size(text));
  std::string message;
  for (int i = 0; i < length; ++i) AppendUtf8(static_cast<char32_t>(text[i]), message);
  return message;
}

std::u32string Codes(std::string_view valid_utf8) {
  std::u32string codes;
  while (!valid_utf8.empty()) codes.push_back(TakeCharacter(valid_utf8));
  return codes;
}

pcre2_match_context* Limits() {
  static const auto limits = [] {
    std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>> made(
        pcre2_match_context_create(nullptr));
    pcre2_set_match_limit(made.get(), kMaxSteps);
    pcre2_set_heap_limit(made.get(), kMaxMatchKilobytes);
    return made;
  }();
  return limits.get();
}

// Where a match is put: one a thread, since every word of a text may be searched.
pcre2_match_data* Found() {
  thread_local const std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>> found(
      pcre2_match_data_create(1, nullptr));
  return found.get();
}

}  // namespace

absl::StatusOr<Regex> Regex::Make(std::u32string_view pattern, uint32_t options) {
  const std::vector<uint32_t> units(pattern.begin(), pattern.end());
  const std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  size_t at = 0;
  pcre2_code* code =
      pcre2_compile(units.data(), units.size(), PCRE2_UTF | options, &error, &at, context.get());
  if (code == nullptr) return Invalid(Explained(error), " at character ", at);
  Code kept(code, [](void* made) { pcre2_code_free(static_cast<pcre2_code*>(made)); });
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where it cannot, the pattern is interpreted
  return Regex(std::move(kept));
}

absl::StatusOr<Regex> Regex::Compile(std::string_view valid_utf8) {
  if (valid_utf8.size() > kMaxPatternBytes)
    return Invalid(valid_utf8.size(), " bytes are above ", kMaxPatternBytes);
  const Pcre2Pattern pattern = FromOniguruma(Codes(valid_utf8));
  const uint32_t classes = pattern.extended_classes ? PCRE2_ALT_EXTENDED_CLASS : 0;
  return Make(pattern.text, PCRE2_UCP | PCRE2_MULTILINE | classes);
}

absl::StatusOr<Regex> Regex::Literal(std::string_view valid_utf8) {
  if (valid_utf8.size() > kMaxPatternBytes)
    return Invalid(valid_utf8.size(), " bytes are above ", kMaxPatternBytes);
  return Make(Codes(valid_utf8), PCRE2_LITERAL);
}

absl::StatusOr<bool> Regex::Find(std::span<const uint32_t> text, size_t from, Match& match) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  int found = pcre2_match(code, text.data(), text.size(), from, PCRE2_NO_UTF_CHECK, Found(), Limits());
  if (found == PCRE2_ERROR_JIT_STACKLIMIT)  // the interpreter has more
    found = pcre2_match(code, text.data(), text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, Found(),
                        Limits());
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0)
    return Invalid("a regular expression of the tokenizer fails at character ", from,
                   " of the text: ", Explained(found));
  const size_t* ends = pcre2_get_ovector_pointer(Found());
  match = {ends[0], ends[1]};
  if (match.begin >= from && match.end >= match.begin) return true;
  return Invalid("a regular expression of the tokenizer goes back in the text at character ", from);
}

absl::StatusOr<std::vector<Regex::Match>> Regex::FindAll(CharSpan text) const {
  std::vector<uint32_t> codes;
  codes.reserve(text.size() + 1);
  for (const Char& c : text) codes.push_back(c.code);
  std::vector<Match> matches;
  std::optional<size_t> last_end;
  for (size_t from = 0; from <= codes.size();) {
    Match match;
    ASSIGN_OR_RETURN(const bool found, Find(codes, from, match));
    if (!found) break;
    if (match.begin == match.end && last_end == match.end) {
      ++from;
      continue;
    }
    matches.push_back(match);
    from = match.end;
    last_end = match.end;
  }
  return matches;
}

absl::StatusOr<Regex> ReadPattern(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  const bool is_regex = fields.Has("Regex");
  const std::string text = fields.String(is_regex ? "Regex" : "String", "");
  if (!is_regex && !fields.Has("String")) fields.Fail("neither String nor Regex is given");
  RETURN_IF_ERROR(fields.Finish());
  auto regex = is_regex ? Regex::Compile(text) : Regex::Literal(text);
  if (!regex.ok())
    return Invalid(where, is_regex ? ".Regex: " : ".String: ", Shown(text), ": ", regex.status().message());
  return regex;
}

}  // namespace heed
