#include "engine/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>

#include "engine/text/tokenizer.h"

namespace heed {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// How a character begins (Unicode 15, table 3-7): its length, and what its second byte may be.
struct Lead {
  size_t length = 1;
  uint8_t second_min = 0x80, second_max = 0xbf;
};

// Length 0: no character begins so.
Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xc2) return {0};
  if (byte < 0xe0) return {2};
  if (byte == 0xe0) return {3, 0xa0};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3};
  if (byte == 0xf0) return {4, 0x90};
  if (byte < 0xf4) return {4};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

// The bytes at the beginning that belong together: a whole character, or as much of one as there is, or one
// byte that belongs nowhere.
struct Part {
  size_t length;
  bool whole;
};

Part FirstPart(std::string_view bytes) {
  const Lead lead = LeadOf(bytes[0]);
  size_t length = 1;
  while (length < std::min(lead.length, bytes.size())) {
    const uint8_t byte = bytes[length];
    const uint8_t min = length == 1 ? lead.second_min : 0x80, max = length == 1 ? lead.second_max : 0xbf;
    if (byte < min || byte > max) break;
    ++length;
  }
  return {length, length == lead.length};
}

bool IsAscii(char32_t c) { return c < 0x80; }

bool IsLetterOrDigit(char32_t c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

uint32_t Category(char32_t c) { return uint32_t{1} << utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

template <typename... Categories>
constexpr uint32_t AnyOf(Categories... categories) {
  return ((uint32_t{1} << categories) | ...);
}

constexpr uint32_t kMarks = AnyOf(UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MC, UTF8PROC_CATEGORY_ME);
constexpr uint32_t kNumbers = AnyOf(UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_NO);
constexpr uint32_t kPunctuation =
    AnyOf(UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PD, UTF8PROC_CATEGORY_PS, UTF8PROC_CATEGORY_PE,
          UTF8PROC_CATEGORY_PI, UTF8PROC_CATEGORY_PF, UTF8PROC_CATEGORY_PO);
constexpr uint32_t kControls = AnyOf(UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CO);
constexpr uint32_t kWord =
    kMarks | AnyOf(UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT, UTF8PROC_CATEGORY_LM,
                   UTF8PROC_CATEGORY_LO, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_PC);

// Symbols that count as alphabetic: letters in circles and squares.
bool IsEnclosedLetter(char32_t c) {
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
         (c >= 0x1f170 && c <= 0x1f189);
}

bool IsJoiner(char32_t c) { return c == 0x200c || c == 0x200d; }

}  // namespace

char32_t TakeCharacter(std::string_view& valid_utf8) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(valid_utf8[i]); };
  const size_t length = LeadOf(byte(0)).length;
  char32_t c = length == 1 ? byte(0) : byte(0) & (0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) c = c << 6 | (byte(i) & 0x3f);
  valid_utf8.remove_prefix(length);
  return c;
}

void AppendUtf8(char32_t character, std::string& text) {
  if (IsAscii(character)) {
    text.push_back(static_cast<char>(character));
    return;
  }
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
  text.append(reinterpret_cast<const char*>(bytes), length);
}

int Utf8Bytes(char32_t character) {
  return character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
}

bool ValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const Part part = FirstPart(text);
    if (!part.whole) return false;
    text.remove_prefix(part.length);
  }
  return true;
}

int64_t CodePoints(std::string_view valid_utf8) {
  return std::count_if(valid_utf8.begin(), valid_utf8.end(), [](char byte) { return (byte & 0xc0) != 0x80; });
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Part part = FirstPart(bytes);
    text += part.whole ? bytes.substr(0, part.length) : kReplacement;
    bytes.remove_prefix(part.length);
  }
  return text;
}

char32_t LowercaseOf(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

char32_t UppercaseOf(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c & ~char32_t{0x20} : c;
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

bool IsSpace(char32_t c) {
  if (IsAscii(c)) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool IsWord(char32_t c) {
  if (IsAscii(c)) return IsLetterOrDigit(c) || c == '_';
  return (Category(c) & kWord) != 0 || IsEnclosedLetter(c) || IsJoiner(c);
}

bool IsPunctuation(char32_t c) {
  if (IsAscii(c)) return c > ' ' && c < 0x7f && !IsLetterOrDigit(c);
  return (Category(c) & kPunctuation) != 0;
}

bool IsNumeric(char32_t c) {
  if (IsAscii(c)) return c >= '0' && c <= '9';
  return (Category(c) & kNumbers) != 0;
}

bool IsMark(char32_t c) { return !IsAscii(c) && (Category(c) & kMarks) != 0; }

bool IsNonspacingMark(char32_t c) { return !IsAscii(c) && (Category(c) & AnyOf(UTF8PROC_CATEGORY_MN)) != 0; }

bool IsControl(char32_t c) {
  if (IsAscii(c)) return c < ' ' || c == 0x7f;
  return (Category(c) & kControls) != 0;
}

}  // namespace heed
