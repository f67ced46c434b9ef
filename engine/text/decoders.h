// The way back: tokens to text.
#ifndef HEED_ENGINE_TEXT_DECODERS_H_
#define HEED_ENGINE_TEXT_DECODERS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"

namespace heed {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Turns the spellings of tokens into parts of the text: joined, they are the text.
  virtual void Decode(std::vector<std::string>& tokens) const = 0;
  // The bytes that one token stands for in a text: a part of a character stays what it is, and so does a
  // space that only the beginning or the end of a text loses.
  virtual std::string Bytes(std::string token) const;
  // Whether a token's text depends on those after it: a byte of byte fallback is a part of the text only if
  // all bytes beside it are.
  virtual bool DependsOnNext(std::string_view token) const { return false; }
};

// As tokenizer.json describes it; for null, one that puts a space between tokens.
absl::StatusOr<std::unique_ptr<const Decoder>> NewDecoder(const Json& json, const std::string& where);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_DECODERS_H_
