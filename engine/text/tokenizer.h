// Text to token ids and back. One interface for every kind of tokenizer; which kind a folder holds is found
// at load.
#ifndef HEED_ENGINE_TEXT_TOKENIZER_H_
#define HEED_ENGINE_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace heed {

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;                     // mostly 0, or 1 for the second text of a pair
  std::vector<std::pair<int32_t, int32_t>> offsets;  // of each token in its text, code points, [begin, end)
  std::vector<int8_t> texts;  // of each token the text that it is of: 0, 1 the second of a pair; kNoText
};

inline constexpr int8_t kNoText = -1;  // of a special token that was put beside the texts

struct EncodeOptions {
  bool add_special_tokens = true;
  int64_t max_length = 0;  // truncate to this many tokens, special ones included; 0 = never
};

// Const and thread-safe. Time is linear in the text, whatever the text.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // `text` must be valid UTF-8 (see ValidUtf8), else INVALID_ARGUMENT. A pair is two texts joined as the
  // tokenizer's post-processor says; INVALID_ARGUMENT where it has no form for pairs.
  virtual absl::StatusOr<Encoding> Encode(std::string_view text, std::optional<std::string_view> pair,
                                          const EncodeOptions& options) const = 0;
  // Valid UTF-8 always: bytes that form no character become U+FFFD.
  virtual std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;
  // Of one token alone, special or not, and exactly: part of a character stays what it is, and so does a
  // space that only the first token of a text loses.
  virtual std::string TokenBytes(int32_t id) const { return Decode({&id, 1}, /*skip_special_tokens=*/false); }
  // Of one token, as the vocabulary spells it: "##ing", "▁the". Valid UTF-8, unless tokens are bytes.
  virtual std::string Spelling(int32_t id) const { return TokenBytes(id); }
  // Whether the token's text depends on those right after it: a byte of a tokenizer in which one byte that is
  // no text makes U+FFFD of all bytes beside it.
  virtual bool DependsOnNext(int32_t id) const { return false; }
  virtual int32_t vocab_size() const = 0;  // ids are below it
  // The id of a token spelled so; -1 if there is none. For single tokens such as "[MASK]".
  virtual int32_t TokenId(std::string_view token) const = 0;
  // No TokenBytes() is longer.
  int64_t max_token_bytes() const { return max_token_bytes_; }
  // For people: "BPE", "Unigram", "WordPiece", "WordLevel", "bytes".
  const std::string& kind() const { return kind_; }

 protected:
  std::string kind_;
  // For who makes a tokenizer, once it is complete: tries all ids.
  void MeasureTokens();

 private:
  int64_t max_token_bytes_ = 0;
};

// The folder's tokenizer.json; else bytes where config.json says "tokenizer": "bytes"; else what its other
// files hold (tokenizer_files.h). nullptr: the folder has none, and the model reads token ids only. Bad files
// are refused with the field and the limit.
absl::StatusOr<std::unique_ptr<const Tokenizer>> LoadTokenizer(const std::string& folder);

// The folder's file of SentencePiece (spiece.model, tokenizer.model, ...) without anything that stands beside
// it: ids and text are SentencePiece's own. NOT_FOUND where there is none.
absl::StatusOr<std::unique_ptr<const Tokenizer>> LoadSentencePiece(const std::string& folder);

bool ValidUtf8(std::string_view text);
int64_t CodePoints(std::string_view valid_utf8);

// Turns a growing list of tokens into pieces of text, for streams: each piece is valid UTF-8, pieces joined
// are the text of all tokens, and a piece never has to be taken back. Text that later tokens may still change
// (half a character, a space that a decoder may strip, bytes of byte fallback) waits for the next piece.
class PieceDecoder {
 public:
  // `prompt`: tokens before the first generated one, since some decoders look back. The tokenizer must
  // outlive this.
  PieceDecoder(const Tokenizer& tokenizer, std::span<const int32_t> prompt, bool skip_special_tokens);
  // The text that is certain now and was not before; often the whole token, sometimes nothing.
  std::string Add(int32_t token);
  // The rest, when no more tokens come.
  std::string Finish();

 private:
  std::string Next(bool last);
  size_t Settled() const;
  void LetGo(const std::string& text);
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::vector<int32_t> tokens_;  // the last ones, of the prompt or generated
  std::string said_;             // how their text begins: what was given, or is the prompt's
};

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_TOKENIZER_H_
