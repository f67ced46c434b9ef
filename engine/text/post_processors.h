// The last stage: joins the texts of a pair, and puts special tokens around them.
#ifndef HEED_ENGINE_TEXT_POST_PROCESSORS_H_
#define HEED_ENGINE_TEXT_POST_PROCESSORS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/text/token_models.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocabulary.h"

namespace heed {

using Tokens = std::vector<Token>;

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // How many tokens Join() adds.
  virtual int64_t SpecialTokens(bool pair) const = 0;
  virtual Encoding Join(const Tokens& first, const Tokens* second, bool add_special_tokens) const = 0;
};

// As tokenizer.json describes it; for null, one that adds nothing and calls the second text of a pair type 1.
absl::StatusOr<std::unique_ptr<const PostProcessor>> NewPostProcessor(const Json& json,
                                                                      const std::string& where,
                                                                      const Vocabulary& vocabulary);

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_POST_PROCESSORS_H_
