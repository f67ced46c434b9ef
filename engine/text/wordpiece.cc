// WordPiece (Schuster and Nakajima 2012; Devlin et al. 2018): from its beginning on, a word is cut into the
// longest tokens there are; those that go on within the word are spelled with a prefix. A word that cannot be
// cut so is unknown.
#include <utility>

#include "engine/base/status.h"
#include "engine/text/token_models.h"

namespace heed {
namespace {

struct Options {
  std::string unknown;
  std::string prefix;
  size_t max_word = 0;  // characters; longer words are unknown
};

class WordPiece : public TokenModel {
 public:
  WordPiece(Trie tokens, Options options)
      : pieces_(std::move(tokens)),
        options_(std::move(options)),
        unknown_(pieces_.Find(ToChars(options_.unknown))),
        within_(pieces_.Walk(Trie::kRoot, ToChars(options_.prefix))) {}

  absl::Status Tokenize(CharSpan word, Tokens& tokens) const override {
    const size_t before = tokens.size();
    if (word.size() <= options_.max_word && Cut(word, tokens)) return absl::OkStatus();
    if (unknown_ < 0) return NoTokenFor(word, options_.unknown);
    tokens.resize(before);
    tokens.push_back({unknown_, word.front().begin, word.back().end});
    return absl::OkStatus();
  }

 private:
  // Whether all of it is tokens.
  bool Cut(CharSpan word, Tokens& tokens) const {
    for (size_t begin = 0, end = 0; begin < word.size(); begin = end) {
      int32_t longest = Trie::kNone;
      int32_t node = begin == 0 ? Trie::kRoot : within_;
      for (size_t at = begin; at < word.size() && node >= 0; ++at) {
        node = pieces_.Step(node, word[at].code);
        if (pieces_.Number(node) < 0) continue;
        longest = pieces_.Number(node);
        end = at + 1;
      }
      if (longest < 0) return false;
      tokens.push_back({longest, word[begin].begin, word[end - 1].end});
    }
    return true;
  }

  const Trie pieces_;
  const Options options_;
  const int32_t unknown_;
  const int32_t within_;  // the node after the prefix, where a token within a word begins
};

}  // namespace

MadeTokenModel NewWordPiece(JsonFields& fields, Vocabulary& vocabulary) {
  Trie pieces = ReadModelTokens(fields, vocabulary);
  Options options;
  options.unknown = fields.String("unk_token", "[UNK]");
  options.prefix = fields.String("continuing_subword_prefix", "##");
  options.max_word = fields.Int("max_input_chars_per_word", 100, 0, INT32_MAX);
  RETURN_IF_ERROR(fields.Finish());
  return std::make_unique<WordPiece>(std::move(pieces), std::move(options));
}

}  // namespace heed
