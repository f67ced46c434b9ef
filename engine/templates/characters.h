// Text by its characters, as Python's strings have them: white space, case, places.
#ifndef HEED_ENGINE_TEMPLATES_CHARACTERS_H_
#define HEED_ENGINE_TEMPLATES_CHARACTERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::jinja {

// All text is valid UTF-8.
bool IsPythonSpace(char32_t c);
// Without the white space, or the characters of `set`, at that end.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);
std::string_view StripLeft(std::string_view text, std::string_view set);
std::string_view StripRight(std::string_view text, std::string_view set);

// Each character's own mapping: the few that become two characters stay as they are.
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
// The first character upper, the others lower.
std::string Capitalized(std::string_view text);
// So each word: what begins after a character that is no letter, or, with `separators`, after one of these.
std::string Titled(std::string_view text);
std::string Titled(std::string_view text, std::string_view separators);

// Of each character, and of the end: the byte where it begins.
std::vector<size_t> Places(std::string_view text);

}  // namespace heed::jinja

#endif  // HEED_ENGINE_TEMPLATES_CHARACTERS_H_
