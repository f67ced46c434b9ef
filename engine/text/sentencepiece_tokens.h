// From the pieces of a SentencePiece model to the tokens of a tokenizer: families of models put tokens of
// their own before or after the pieces, or change scores. And the merges of BPE, which such a model does not
// list.
#ifndef HEED_ENGINE_TEXT_SENTENCEPIECE_TOKENS_H_
#define HEED_ENGINE_TEXT_SENTENCEPIECE_TOKENS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/sentencepiece_model.h"
#include "engine/text/tokenizer_settings.h"

namespace heed {

struct ScoredToken {
  std::string text;
  double score = 0;
  SentencePiece::Type type = SentencePiece::kNormal;  // kControl: a special token

  // Whether text may become it piece by piece.
  bool InText() const {
    return type == SentencePiece::kNormal || type == SentencePiece::kUserDefined ||
           type == SentencePiece::kUnused;
  }
};

struct ScoredTokens {
  std::vector<ScoredToken> list;  // by id
  int64_t unknown_id = -1;        // -1: the model's unknown piece has no place among them
};

using MakeTokens = ScoredTokens (*)(const SentencePieceModel& model, const TokenizerSettings& settings);

ScoredTokens PlainTokens(const SentencePieceModel& model, const TokenizerSettings& settings);  // the pieces
// As SentencePiece itself scores them: pieces of the user before all others.
ScoredTokens OwnTokens(const SentencePieceModel& model, const TokenizerSettings& settings);
ScoredTokens T5Tokens(const SentencePieceModel& model, const TokenizerSettings& settings);
// ALBERT's and XLNet's: a number with a comma is rather two pieces.
ScoredTokens CommaTokens(const SentencePieceModel& model, const TokenizerSettings& settings);
ScoredTokens XlmRobertaTokens(const SentencePieceModel& model, const TokenizerSettings& settings);
ScoredTokens CamembertTokens(const SentencePieceModel& model, const TokenizerSettings& settings);
ScoredTokens XglmTokens(const SentencePieceModel& model, const TokenizerSettings& settings);
ScoredTokens MbartTokens(const SentencePieceModel& model, const TokenizerSettings& settings);
ScoredTokens Mbart50Tokens(const SentencePieceModel& model, const TokenizerSettings& settings);
ScoredTokens PegasusTokens(const SentencePieceModel& model, const TokenizerSettings& settings);
ScoredTokens DebertaTokens(const SentencePieceModel& model, const TokenizerSettings& settings);
ScoredTokens GemmaTokens(const SentencePieceModel& model, const TokenizerSettings& settings);

// All pairs of tokens that make up a token, those of the highest score first; of one token's pairs that with
// the longest left half. Refuses more than 4,000,000.
absl::StatusOr<Json> MergesOf(const ScoredTokens& tokens, const std::string& file);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_SENTENCEPIECE_TOKENS_H_
