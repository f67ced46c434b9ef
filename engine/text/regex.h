// Regular expressions of tokenizer.json: the only place that knows PCRE2.
#ifndef HEED_ENGINE_TEXT_REGEX_H_
#define HEED_ENGINE_TEXT_REGEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/chars.h"

namespace heed {

// Const and thread-safe.
class Regex {
 public:
  struct Match {
    size_t begin = 0, end = 0;  // characters
  };

  // As Oniguruma reads it (regex_syntax.h). INVALID_ARGUMENT says what is wrong with it, and where.
  static absl::StatusOr<Regex> Compile(std::string_view valid_utf8);
  // Finds this text itself.
  static absl::StatusOr<Regex> Literal(std::string_view valid_utf8);

  // All matches, one after another; an empty one not where the last has ended. INVALID_ARGUMENT where the
  // text takes too many steps or too much memory.
  absl::StatusOr<std::vector<Match>> FindAll(CharSpan text) const;

 private:
  using Code = std::unique_ptr<void, void (*)(void*)>;
  explicit Regex(Code code) : code_(std::move(code)) {}
  static absl::StatusOr<Regex> Make(std::u32string_view pattern, uint32_t options);
  absl::StatusOr<bool> Find(std::span<const uint32_t> text, size_t from, Match& match) const;

  Code code_;
};

// A `pattern` as tokenizer.json has it: {"String": "..."} or {"Regex": "..."}. `where` begins messages.
absl::StatusOr<Regex> ReadPattern(const Json& json, const std::string& where);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_REGEX_H_
