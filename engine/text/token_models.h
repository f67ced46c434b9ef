// The third stage: words to tokens of the vocabulary.
#ifndef HEED_ENGINE_TEXT_TOKEN_MODELS_H_
#define HEED_ENGINE_TEXT_TOKEN_MODELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/chars.h"
#include "engine/text/vocabulary.h"

namespace heed {

struct Token {
  int32_t id = 0;
  int32_t begin = 0, end = 0;  // code points of the original text
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Adds the tokens of a word, which is not empty.
  virtual void Tokenize(CharSpan word, std::vector<Token>& tokens) const = 0;
};

// As tokenizer.json describes it, in two steps, since added tokens belong to the same vocabulary: the model's
// tokens are put into it; when it is finished, the model is made, which keeps a reference to it.
absl::Status ReadModelTokens(const Json& json, const std::string& where, Vocabulary& vocabulary);
absl::StatusOr<std::unique_ptr<const TokenModel>> NewTokenModel(const Json& json, const std::string& where,
                                                                const Vocabulary& vocabulary);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_TOKEN_MODELS_H_
