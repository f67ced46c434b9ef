#include "server/observation/trace_parent.h"

#include <algorithm>
#include <cstddef>

namespace heed {
namespace {

constexpr size_t kLength = 55;  // 2 + 1 + 32 + 1 + 16 + 1 + 2

std::optional<uint8_t> Digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<uint8_t>(c - 'a' + 10);
  return std::nullopt;
}

// The bytes of as many pairs of digits. False if any is none.
template <size_t n>
bool ReadHex(std::string_view text, std::array<uint8_t, n>* bytes) {
  for (size_t i = 0; i < n; ++i) {
    const auto high = Digit(text[2 * i]), low = Digit(text[2 * i + 1]);
    if (!high || !low) return false;
    (*bytes)[i] = static_cast<uint8_t>(*high << 4 | *low);
  }
  return true;
}

template <size_t n>
bool AllZero(const std::array<uint8_t, n>& bytes) {
  return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}

}  // namespace

std::optional<TraceParent> ParseTraceParent(std::string_view header) {
  TraceParent parent;
  std::array<uint8_t, 1> version{}, flags{};
  if (header.size() < kLength || header[2] != '-' || header[35] != '-' || header[52] != '-')
    return std::nullopt;
  if (!ReadHex(header, &version) || !ReadHex(header.substr(3), &parent.trace_id) ||
      !ReadHex(header.substr(36), &parent.span_id) || !ReadHex(header.substr(53), &flags))
    return std::nullopt;
  if (version[0] == 0xff || AllZero(parent.trace_id) || AllZero(parent.span_id)) return std::nullopt;
  if (header.size() > kLength && (version[0] == 0 || header[kLength] != '-')) return std::nullopt;
  parent.sampled = flags[0] & 1;
  return parent;
}

}  // namespace heed
