// A folder's tokenizer as JSON, of the form of a tokenizer.json whatever the files are that hold it: those
// that families of models shipped before there was a tokenizer.json are converted, as transformers does it.
#ifndef HEED_ENGINE_TEXT_TOKENIZER_FILES_H_
#define HEED_ENGINE_TEXT_TOKENIZER_FILES_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/json.h"

namespace heed {

struct TokenizerFile {
  Json json;
  std::string name;  // of the file that has the tokens, for messages
};

// tokenizer.json, with what tokenizer_config.json, special_tokens_map.json and added_tokens.json say beyond
// it. Nothing where there is none.
absl::StatusOr<std::optional<TokenizerFile>> ReadTokenizerJson(const std::string& folder);

// The first of a model of SentencePiece (spiece.model, sentencepiece.bpe.model, spm.model, tokenizer.model,
// sentencepiece.model), vocab.json with merges.txt, and vocab.txt. Nothing where there is none of them. What
// they mean is told by the class in tokenizer_config.json, else by `config` (config.json: tokenizer_class,
// model_type), else by the kind of file.
absl::StatusOr<std::optional<TokenizerFile>> ReadOtherTokenizerFiles(const std::string& folder,
                                                                     const Json& config);

// The model of SentencePiece alone, as SentencePiece itself reads it. NOT_FOUND where there is none.
absl::StatusOr<TokenizerFile> ReadSentencePieceFile(const std::string& folder);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_TOKENIZER_FILES_H_
