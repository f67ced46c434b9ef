// A word is a token, or the unknown token.
#include <utility>

#include "engine/base/status.h"
#include "engine/text/token_models.h"

namespace heed {
namespace {

class WordLevel : public TokenModel {
 public:
  WordLevel(Trie words, std::string unknown)
      : words_(std::move(words)), unknown_(std::move(unknown)), unknown_id_(words_.Find(ToChars(unknown_))) {}

  absl::Status Tokenize(CharSpan word, Tokens& tokens) const override {
    int32_t id = words_.Find(word);
    if (id < 0) id = unknown_id_;
    if (id < 0) return NoTokenFor(word, unknown_);
    tokens.push_back({id, word.front().begin, word.back().end});
    return absl::OkStatus();
  }

 private:
  const Trie words_;
  const std::string unknown_;
  const int32_t unknown_id_;
};

}  // namespace

MadeTokenModel NewWordLevel(JsonFields& fields, Vocabulary& vocabulary) {
  Trie words = ReadModelTokens(fields, vocabulary);
  std::string unknown = fields.String("unk_token", "<unk>");
  RETURN_IF_ERROR(fields.Finish());
  return std::make_unique<WordLevel>(std::move(words), std::move(unknown));
}

}  // namespace heed
