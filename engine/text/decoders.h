// The way back: tokens to text.
#ifndef HEED_ENGINE_TEXT_DECODERS_H_
#define HEED_ENGINE_TEXT_DECODERS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"

namespace heed {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Turns the spellings of tokens into parts of the text: joined, they are the text.
  virtual void Decode(std::vector<std::string>& tokens) const = 0;
};

// As tokenizer.json describes it; for null, one that puts a space between tokens.
absl::StatusOr<std::unique_ptr<const Decoder>> NewDecoder(const Json& json, const std::string& where);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_DECODERS_H_
