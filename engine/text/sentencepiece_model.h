// What a file of SentencePiece (spiece.model, tokenizer.model, ...) holds: pieces of text with scores, and
// how text is normalised before it is cut into them.
#ifndef HEED_ENGINE_TEXT_SENTENCEPIECE_MODEL_H_
#define HEED_ENGINE_TEXT_SENTENCEPIECE_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace heed {

struct SentencePiece {
  enum Type { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  std::string text;
  float score = 0;  // Unigram: its log probability; BPE: the higher, the sooner it is merged
  Type type = kNormal;
};

struct SentencePieceModel {
  enum Type { kUnigram = 1, kBpe = 2 };
  Type type = kUnigram;
  std::vector<SentencePiece> pieces;         // by id; texts are UTF-8, not empty, and differ
  int32_t unknown_id = 0;                    // the only piece of type kUnknown
  bool byte_fallback = false;                // what no piece covers becomes bytes, <0x00> to <0xFF>
  std::string unknown_surface = " \u2047 ";  // how the unknown piece reads when it is decoded
  std::string charsmap;                      // of a Precompiled normalizer; may be empty
  bool add_dummy_prefix = true;              // a space before the text
  bool remove_extra_whitespaces = true;      // at the ends, and of several all but one
};

// Of the bytes of `file`, which begins messages. Sizes: 2^21 pieces, of 512 bytes each.
absl::StatusOr<SentencePieceModel> ReadSentencePieceModel(std::string_view bytes, const std::string& file);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_SENTENCEPIECE_MODEL_H_
