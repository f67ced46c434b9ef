// Tokens that are found in the text before anything else happens to it: "[MASK]", "<|endoftext|>". Some are
// looked for in the text as it came, some (normalized) after normalisation.
#ifndef HEED_ENGINE_TEXT_ADDED_TOKENS_H_
#define HEED_ENGINE_TEXT_ADDED_TOKENS_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/chars.h"
#include "engine/text/normalizers.h"
#include "engine/text/vocabulary.h"

namespace heed {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the spaces before it
  bool rstrip = false;       // takes the spaces after it
  bool normalized = false;   // is looked for in normalised text, itself normalised
  bool special = false;      // is left out when decoding without special tokens
};

// The list `added_tokens` of tokenizer.json, each token put into the vocabulary too.
absl::StatusOr<std::vector<AddedToken>> ReadAddedTokens(const Json& list, const std::string& where,
                                                        Vocabulary& vocabulary);

// Finds tokens in text: the leftmost, of these the longest. Time is linear in the text.
class AddedTokenFinder {
 public:
  // A part of the text: an added token, or what lies between two (id -1).
  struct Part {
    int32_t id = -1;
    CharSpan chars;
  };

  // INVALID_ARGUMENT if nothing is left of a token after normalisation. The normalizer may be null.
  absl::Status Add(const AddedToken& token, const Normalizer* normalizer);
  std::vector<Part> Split(CharSpan text) const;

 private:
  const AddedToken* LongestAt(CharSpan text, size_t at, size_t* end) const;
  static uint64_t Edge(int32_t node, char32_t code) {
    return uint64_t{static_cast<uint32_t>(node)} << 32 | code;
  }

  std::vector<AddedToken> tokens_;
  std::unordered_map<uint64_t, int32_t> edges_;  // a trie: (node, character) -> node; 0 is the root
  std::vector<int32_t> ends_ = {-1};             // node -> index of the token that ends there
};

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_ADDED_TOKENS_H_
