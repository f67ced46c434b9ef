// UTF-8 and the classes of characters that tokenizers ask about, by the Unicode tables of utf8proc.
#ifndef HEED_ENGINE_TEXT_UNICODE_H_
#define HEED_ENGINE_TEXT_UNICODE_H_

#include <string>
#include <string_view>

namespace heed {

// Takes the first character off valid, non-empty UTF-8.
char32_t TakeCharacter(std::string_view& valid_utf8);
void AppendUtf8(char32_t character, std::string& text);
int Utf8Bytes(char32_t character);
// The same text, with U+FFFD for every longest part that cannot begin or go on as a character.
std::string ReplaceInvalidUtf8(std::string_view bytes);

// Of one character as one character: itself where it has none, or a longer one.
char32_t LowercaseOf(char32_t c);
char32_t UppercaseOf(char32_t c);

bool IsSpace(char32_t c);           // property White_Space
bool IsWord(char32_t c);            // \w as Unicode TS 18 has it: letters, marks, digits, connectors, joiners
bool IsPunctuation(char32_t c);     // categories P, and ASCII's symbols
bool IsNumeric(char32_t c);         // categories N
bool IsMark(char32_t c);            // categories M
bool IsNonspacingMark(char32_t c);  // category Mn
bool IsControl(char32_t c);         // categories Cc, Cf and Co

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_UNICODE_H_
