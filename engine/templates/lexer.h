// A template's text as tokens. White space around tags goes as transformers sets Jinja up: trim_blocks,
// lstrip_blocks, no newline at the end, and '-' and '+' in tags as they say.
#ifndef HEED_ENGINE_TEMPLATES_LEXER_H_
#define HEED_ENGINE_TEMPLATES_LEXER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace heed::jinja {

struct Token {
  enum class Type {
    kText,
    kPrintBegin,  // {{
    kPrintEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,  // of the template
  };
  Type type = Type::kEnd;
  std::string text{};  // of a string, what stands for it; of a number, digits without '_'
  int line = 1;

  bool Is(Type of, std::string_view spelled) const { return type == of && text == spelled; }
  bool IsOperator(std::string_view spelled) const { return Is(Type::kOperator, spelled); }
  bool IsName(std::string_view spelled) const { return Is(Type::kName, spelled); }
};

// The last is kEnd. `source` is valid UTF-8. Errors begin with "line N: ".
absl::StatusOr<std::vector<Token>> Lex(std::string_view source);

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_LEXER_H_
