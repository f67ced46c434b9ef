// Tokens that are found in the text before anything else happens to it: "[MASK]", "<|endoftext|>". Some are
// looked for in the text as it came, some (normalized) after normalisation.
#ifndef HEED_ENGINE_TEXT_ADDED_TOKENS_H_
#define HEED_ENGINE_TEXT_ADDED_TOKENS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/chars.h"
#include "engine/text/normalizers.h"
#include "engine/text/trie.h"
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

  // INVALID_ARGUMENT if nothing is left of a token after normalisation. The normalizer may be null. Of two
  // tokens that become equal, the first added is found.
  absl::Status Add(const AddedToken& token, const Normalizer* normalizer);
  std::vector<Part> Split(CharSpan text) const;

 private:
  const AddedToken* LongestAt(CharSpan text, size_t at, size_t* end) const;

  std::vector<AddedToken> tokens_;
  Trie indices_;  // of tokens_, by what is looked for
};

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_ADDED_TOKENS_H_
