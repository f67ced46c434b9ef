// What a tokenizer.json describes: a text goes through the stages of this folder one after another.
//   added tokens -> normalizer -> added tokens (normalized) -> pre-tokenizer -> model -> post-processor
// and ids come back to text through the decoder. A kind of each stage is a class in the stage's file.
#ifndef HEED_ENGINE_TEXT_PIPELINE_TOKENIZER_H_
#define HEED_ENGINE_TEXT_PIPELINE_TOKENIZER_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/tokenizer.h"

namespace heed {

// The text of a tokenizer.json. What it describes and Heed does not know is refused by name.
absl::StatusOr<std::unique_ptr<const Tokenizer>> NewPipelineTokenizer(std::string_view text);
// The same, made from other files. `file` begins messages: "vocab.txt".
absl::StatusOr<std::unique_ptr<const Tokenizer>> NewPipelineTokenizer(const Json& json,
                                                                      const std::string& file);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_PIPELINE_TOKENIZER_H_
