// Byte fallback: tokens "<0x00>" to "<0xFF>", a byte each, for characters that no other token spells.
#ifndef HEED_ENGINE_TEXT_BYTE_FALLBACK_H_
#define HEED_ENGINE_TEXT_BYTE_FALLBACK_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/text/trie.h"

namespace heed {

// The number of every byte's token; -1: there is none.
std::array<int32_t, 256> FindByteTokens(const Trie& tokens);
// -1: the token is no byte's.
int ByteOfToken(std::string_view token);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_BYTE_FALLBACK_H_
