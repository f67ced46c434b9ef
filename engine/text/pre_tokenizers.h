// The second stage: cuts text into words, over which no token reaches.
#ifndef HEED_ENGINE_TEXT_PRE_TOKENIZERS_H_
#define HEED_ENGINE_TEXT_PRE_TOKENIZERS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/chars.h"

namespace heed {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts a word, which is not empty, into words, which it adds. Characters may be left out or changed on the
  // way. INVALID_ARGUMENT where a regular expression fails on it (Regex::FindAll).
  virtual absl::Status Split(CharSpan word, Words& words) const = 0;
};

// As tokenizer.json describes it; nullptr for null. `where` begins messages: "tokenizer.json: pre_tokenizer".
absl::StatusOr<std::unique_ptr<const PreTokenizer>> NewPreTokenizer(const Json& json,
                                                                    const std::string& where);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_PRE_TOKENIZERS_H_
