// One function a kind of file, beside tokenizer.json, that a folder may hold its tokenizer in: each gives
// what a tokenizer.json of the same tokenizer holds. tokenizer_files.h chooses among them.
#ifndef HEED_ENGINE_TEXT_FILE_CONVERTERS_H_
#define HEED_ENGINE_TEXT_FILE_CONVERTERS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/sentencepiece_model.h"
#include "engine/text/tokenizer_settings.h"

namespace heed {

// In all of them settings.tokenizer_class says whose converter it is, one of those in tokenizer_files.cc; a
// class that is never kept in such files is refused. Where it is empty, the file's usual one.

// WordPiece, of BERT and its kin: a token a line, its id the line's number from 0 on.
absl::StatusOr<Json> ConvertVocabTxt(std::string_view vocab_txt, const TokenizerSettings& settings);

// BPE of bytes, of GPT-2 and its kin: tokens with ids, and two tokens a line that become one, the first
// first.
absl::StatusOr<Json> ConvertByteBpe(std::string_view vocab_json, std::string_view merges_txt,
                                    const TokenizerSettings& settings);

// BPE and Unigram of SentencePiece; `file` begins messages. Where the class is empty, ids and decoded text
// are those of SentencePiece itself: control pieces are not found in text, and nothing is put around it.
absl::StatusOr<Json> ConvertSentencePiece(const SentencePieceModel& model, const std::string& file,
                                          const TokenizerSettings& settings);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_FILE_CONVERTERS_H_
