// Bytes as characters that show: byte-level tokenizers spell every byte of UTF-8 as one character, a space as
// "\u0120". Bytes that are visible in Latin-1 are themselves, the others follow from U+0100 on.
#ifndef HEED_ENGINE_TEXT_BYTE_LEVEL_H_
#define HEED_ENGINE_TEXT_BYTE_LEVEL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/text/chars.h"

namespace heed {

char32_t CharacterOfByte(uint8_t byte);
// -1: no byte is spelled so.
int ByteOfCharacter(char32_t character);

// Adds the characters of one character's bytes; each has its origin.
void AppendByteLevel(const Char& c, Chars& chars);
// The bytes that a spelling means. One that holds a character which is no byte's means its own UTF-8.
std::string BytesOfSpelling(std::string_view valid_utf8);

// White space, spelled either way.
bool IsSpaceOrItsByte(char32_t c);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_BYTE_LEVEL_H_
