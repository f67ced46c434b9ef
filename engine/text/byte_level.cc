#include "engine/text/byte_level.h"

#include <array>

#include "engine/text/unicode.h"

namespace heed {
namespace {

constexpr bool Shows(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Alphabet {
  std::array<char32_t, 256> characters = {};
  std::array<int, 512> bytes = {};  // of characters below 512; -1: of none
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  alphabet.bytes.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t character = Shows(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.characters[byte] = character;
    alphabet.bytes[character] = byte;
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

char32_t CharacterOfByte(uint8_t byte) { return kAlphabet.characters[byte]; }

int ByteOfCharacter(char32_t character) {
  return character < kAlphabet.bytes.size() ? kAlphabet.bytes[character] : -1;
}

void AppendByteLevel(const Char& c, Chars& chars) {
  std::string bytes;
  AppendUtf8(c.code, bytes);
  for (const char byte : bytes)
    chars.push_back({CharacterOfByte(static_cast<uint8_t>(byte)), c.begin, c.end});
}

std::string BytesOfSpelling(std::string_view valid_utf8) {
  std::string bytes;
  for (std::string_view rest = valid_utf8; !rest.empty();) {
    const int byte = ByteOfCharacter(TakeCharacter(rest));
    if (byte < 0) return std::string(valid_utf8);
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

bool IsSpaceOrItsByte(char32_t c) { return c == kAlphabet.characters[' '] || IsSpace(c); }

}  // namespace heed
