// The third stage: words to tokens of the vocabulary. A kind of model is a file; token_models.cc lists them.
#ifndef HEED_ENGINE_TEXT_TOKEN_MODELS_H_
#define HEED_ENGINE_TEXT_TOKEN_MODELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/chars.h"
#include "engine/text/trie.h"
#include "engine/text/vocabulary.h"

namespace heed {

struct Token {
  int32_t id = 0;
  int32_t begin = 0, end = 0;  // code points of the original text
  // Of an added token: the spaces at the ends of the text where it was found.
  int32_t left_spaces = 0, right_spaces = 0;
};
using Tokens = std::vector<Token>;

// Const and thread-safe.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Adds the tokens of a word, which is not empty. INVALID_ARGUMENT where the model has none for it, nor an
  // unknown token.
  virtual absl::Status Tokenize(CharSpan word, Tokens& tokens) const = 0;
};
using MadeTokenModel = absl::StatusOr<std::unique_ptr<const TokenModel>>;

// "BPE", "Unigram": the kind that tokenizer.json says, or that its other fields are of.
std::string TokenModelType(const Json& json);
// As tokenizer.json describes it; its tokens are put into the vocabulary, which is to be finished by the
// caller. Text is looked up among these only, and not among tokens that others add to the vocabulary.
MadeTokenModel NewTokenModel(const Json& json, const std::string& where, Vocabulary& vocabulary);

// One file each.
MadeTokenModel NewWordLevel(JsonFields& fields, Vocabulary& vocabulary);
MadeTokenModel NewWordPiece(JsonFields& fields, Vocabulary& vocabulary);
MadeTokenModel NewBpe(JsonFields& fields, Vocabulary& vocabulary);
MadeTokenModel NewUnigram(JsonFields& fields, Vocabulary& vocabulary);

// The field `vocab`, from tokens to ids: into the vocabulary, and into a trie.
Trie ReadModelTokens(JsonFields& fields, Vocabulary& vocabulary);
// Of a word for which a model has no token.
absl::Status NoTokenFor(CharSpan word, std::string_view unknown);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_TOKEN_MODELS_H_
