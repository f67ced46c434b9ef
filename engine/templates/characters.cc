#include "engine/templates/characters.h"

#include "absl/functional/function_ref.h"
#include "engine/text/unicode.h"

namespace heed::jinja {
namespace {

using Matches = absl::FunctionRef<bool(char32_t)>;

std::string_view DropLeft(std::string_view text, Matches matches) {
  while (!text.empty()) {
    std::string_view rest = text;
    if (!matches(TakeCharacter(rest))) break;
    text = rest;
  }
  return text;
}

std::string_view DropRight(std::string_view text, Matches matches) {
  while (!text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    std::string_view last = text.substr(begin);
    if (!matches(TakeCharacter(last))) break;
    text = text.substr(0, begin);
  }
  return text;
}

bool InSet(std::string_view set, char32_t c) {
  std::string character;
  AppendUtf8(c, character);
  return set.find(character) != set.npos;
}

template <typename Map>
std::string Mapped(std::string_view text, const Map& map) {
  std::string mapped;
  mapped.reserve(text.size());
  while (!text.empty()) AppendUtf8(map(TakeCharacter(text)), mapped);
  return mapped;
}

bool IsCased(char32_t c) { return LowercaseOf(c) != c || UppercaseOf(c) != c; }

}  // namespace

bool IsPythonSpace(char32_t c) { return IsSpace(c) || (c >= 0x1c && c <= 0x1f); }

std::string_view StripLeft(std::string_view text) { return DropLeft(text, IsPythonSpace); }
std::string_view StripRight(std::string_view text) { return DropRight(text, IsPythonSpace); }
std::string_view StripLeft(std::string_view text, std::string_view set) {
  return DropLeft(text, [&](char32_t c) { return InSet(set, c); });
}
std::string_view StripRight(std::string_view text, std::string_view set) {
  return DropRight(text, [&](char32_t c) { return InSet(set, c); });
}

std::string Upper(std::string_view text) { return Mapped(text, UppercaseOf); }
std::string Lower(std::string_view text) { return Mapped(text, LowercaseOf); }

std::string Capitalized(std::string_view text) {
  bool first = true;
  return Mapped(text, [&](char32_t c) {
    const bool upper = first;
    first = false;
    return upper ? UppercaseOf(c) : LowercaseOf(c);
  });
}

std::string Titled(std::string_view text) {
  bool begins = true;
  return Mapped(text, [&](char32_t c) {
    const bool upper = begins;
    begins = !IsCased(c);
    return upper ? UppercaseOf(c) : LowercaseOf(c);
  });
}

std::string Titled(std::string_view text, std::string_view separators) {
  bool begins = true;
  return Mapped(text, [&](char32_t c) {
    const bool upper = begins;
    begins = IsPythonSpace(c) || InSet(separators, c);
    return upper ? UppercaseOf(c) : LowercaseOf(c);
  });
}

std::vector<size_t> Places(std::string_view text) {
  std::vector<size_t> places;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) places.push_back(i);
  }
  places.push_back(text.size());
  return places;
}

}  // namespace heed::jinja
