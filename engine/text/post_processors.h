// The last stage: joins the texts of a pair, and puts special tokens around them.
#ifndef HEED_ENGINE_TEXT_POST_PROCESSORS_H_
#define HEED_ENGINE_TEXT_POST_PROCESSORS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/token_models.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocabulary.h"

namespace heed {

// One place of a template: a text, or special tokens.
struct Piece {
  enum Kind { kFirst, kSecond, kSpecial } kind;
  int32_t type_id = 0;
  std::vector<int32_t> ids = {};  // of special tokens
};
using Template = std::vector<Piece>;

// All kinds are these three, in this order: offsets lose the spaces at their ends, so many times; then texts
// and special tokens are joined, a single text or a pair.
struct PostProcessing {
  struct Trim {
    bool add_prefix_space =
        true;  // one space before a text's first word was not in the text, and is not lost
  };
  std::vector<Trim> trims;
  Template single = {{Piece::kFirst, 0}};
  Template pair = {{Piece::kFirst, 0}, {Piece::kSecond, 1}};
  bool joins = false;  // the file says how; else the above
};

// Const and thread-safe.
class PostProcessor {
 public:
  PostProcessor(PostProcessing processing, const Vocabulary& vocabulary);
  // How many tokens Join() adds.
  int64_t SpecialTokens(bool pair) const;
  Encoding Join(Tokens first, Tokens* second, bool add_special_tokens) const;

 private:
  void TrimOffsets(bool add_prefix_space, Tokens& tokens) const;

  const PostProcessing processing_;
  // By id: how many white space characters a token begins and ends with. Empty where nothing is trimmed.
  std::vector<std::pair<int32_t, int32_t>> spaces_;
};

// As tokenizer.json describes it; for null, one that adds nothing and calls the second text of a pair type 1.
absl::StatusOr<std::unique_ptr<const PostProcessor>> NewPostProcessor(const Json& json,
                                                                      const std::string& where,
                                                                      const Vocabulary& vocabulary);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_POST_PROCESSORS_H_
