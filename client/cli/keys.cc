#include "client/cli/keys.h"

namespace heed::cli {
namespace {

constexpr char kEscape = 0x1b;
constexpr size_t kLongest = 16;  // of a sequence; what is longer is none

}  // namespace

// ESC [ and ESC O begin sequences (ECMA-48): parameters, and a last character. ESC before anything else is
// left out.
std::vector<Key> KeyReader::Take(std::string_view bytes) {
  std::vector<Key> keys;
  for (const char byte : bytes) {
    if (byte == kEscape) {
      begun_ = byte;
    } else if (begun_.empty() || (begun_.size() == 1 && byte != '[' && byte != 'O')) {
      keys.push_back(static_cast<unsigned char>(byte));
      begun_.clear();
    } else if (begun_ += byte; begun_.size() > 2 && byte >= '@' && byte <= '~') {
      if (byte <= 'D' && byte >= 'A') keys.push_back(kUp + (byte - 'A'));
      begun_.clear();
    } else if (begun_.size() == kLongest) {
      begun_.clear();
    }
  }
  return keys;
}

}  // namespace heed::cli
