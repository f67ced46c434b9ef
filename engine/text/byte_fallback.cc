#include "engine/text/byte_fallback.h"

#include <charconv>
#include <string>

namespace heed {

std::array<int32_t, 256> FindByteTokens(const Trie& tokens) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::array<int32_t, 256> found;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string token = {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
    found[byte] = tokens.Find(ToChars(token));
  }
  return found;
}

int ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
  uint8_t byte = 0;
  const char* const end = token.data() + 5;
  return std::from_chars(token.data() + 3, end, byte, 16).ptr == end ? byte : -1;
}

}  // namespace heed
