// The stages of tokenizers that are kept in files of SentencePiece, as a tokenizer.json has them: a name is
// whose stage it is in transformers, Common what several share, Own what SentencePiece itself does.
#ifndef HEED_ENGINE_TEXT_SENTENCEPIECE_STAGES_H_
#define HEED_ENGINE_TEXT_SENTENCEPIECE_STAGES_H_

#include "engine/base/json.h"
#include "engine/text/sentencepiece_model.h"
#include "engine/text/tokenizer_settings.h"

namespace heed {

struct SentencePieceSource {
  const SentencePieceModel& model;
  const TokenizerSettings& settings;
};

using MakeStage = Json (*)(const SentencePieceSource& source);

Json NoStage(const SentencePieceSource& source);  // null

Json CommonNormalizer(const SentencePieceSource& source);
Json OwnNormalizer(const SentencePieceSource& source);
Json AlbertNormalizer(const SentencePieceSource& source);
Json FnetNormalizer(const SentencePieceSource& source);
Json XlnetNormalizer(const SentencePieceSource& source);
Json DebertaNormalizer(const SentencePieceSource& source);
Json LlamaNormalizer(const SentencePieceSource& source);
Json GemmaNormalizer(const SentencePieceSource& source);

Json Metaspace(const SentencePieceSource& source);  // a pre-tokenizer, and a decoder
Json PegasusWords(const SentencePieceSource& source);
Json DebertaWords(const SentencePieceSource& source);
Json LlamaWords(const SentencePieceSource& source);

Json LlamaDecoder(const SentencePieceSource& source);
Json GemmaDecoder(const SentencePieceSource& source);
Json OwnDecoder(const SentencePieceSource& source);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_SENTENCEPIECE_STAGES_H_
