// What a person types at a terminal that sends each key at once.
#ifndef HEED_CLIENT_CLI_KEYS_H_
#define HEED_CLIENT_CLI_KEYS_H_

#include <string>
#include <string_view>
#include <vector>

namespace heed::cli {

// A byte as the terminal sends it, or one of those below.
using Key = int;
inline constexpr Key kCtrlC = 3;
inline constexpr Key kUp = 256, kDown = 257, kRight = 258, kLeft = 259;

// Bytes to keys. Escape sequences of other keys than the arrows are no key; one may come in several parts.
class KeyReader {
 public:
  std::vector<Key> Take(std::string_view bytes);

 private:
  std::string begun_;  // an escape sequence so far
};

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_KEYS_H_
