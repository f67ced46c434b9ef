#include "engine/text/chars.h"

#include "engine/text/unicode.h"

namespace heed {

Chars ToChars(std::string_view valid_utf8) {
  Chars chars;
  chars.reserve(valid_utf8.size());
  for (int32_t at = 0; !valid_utf8.empty(); ++at) chars.push_back({TakeCharacter(valid_utf8), at, at + 1});
  return chars;
}

void ToUtf8(CharSpan chars, std::string& text) {
  text.clear();
  for (const Char& c : chars) AppendUtf8(c.code, text);
}

std::string ToUtf8(CharSpan chars) {
  std::string text;
  ToUtf8(chars, text);
  return text;
}

}  // namespace heed
