// SentencePiece's own normalization: a table from short strings to what stands for them, kept in the model
// file as a double array (a trie in one list of numbers) and a text that its values point into.
#ifndef HEED_ENGINE_TEXT_CHARSMAP_H_
#define HEED_ENGINE_TEXT_CHARSMAP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/chars.h"

namespace heed {

// Const and thread-safe. Whatever it was read from, it looks only at itself.
class Charsmap {
 public:
  // `base64`: of the table's bytes. An empty one changes nothing. Messages begin with `where`.
  static absl::StatusOr<Charsmap> Read(std::string_view base64, const std::string& where);

  // Replaces what users see as characters (grapheme clusters), where short, else the characters in them.
  // `origin`: see Apply().
  void Normalize(int32_t origin, Chars& text) const;
  // As SentencePiece does it: everywhere the longest entry. (Those above are what Hugging Face's package
  // makes of the same table, which is not the same where marks follow a space.)
  void NormalizeLongest(int32_t origin, Chars& text) const;

 private:
  struct Entry {
    size_t bytes = 0;              // its length
    std::string_view replacement;  // what stands for it
  };
  // The shortest entry that `text` begins with, which is how the package does it, or the longest.
  std::optional<Entry> Find(std::string_view text, bool longest) const;
  std::optional<std::string_view> Text(size_t begin) const;

  std::vector<uint32_t> units_;
  std::string texts_;  // each ends in NUL
};

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_CHARSMAP_H_
