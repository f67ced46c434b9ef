// How those who made a checkpoint generate with it: the folder's generation_config.json, as transformers
// reads it. The ids of tokens that begin and end a text are in the model itself
// (families/generation_config.h).
#ifndef HEED_ENGINE_GENERATION_GENERATION_DEFAULTS_H_
#define HEED_ENGINE_GENERATION_GENERATION_DEFAULTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/generation/beam_search.h"
#include "engine/generation/sampling.h"
#include "engine/generation/token_rules.h"
#include "engine/models/model.h"

namespace heed {

// What happens where a request says nothing.
struct GenerationDefaults {
  SamplingOptions sampling{};  // its seed and min_tokens are nothing
  BeamOptions beam{};          // width 0: a text is drawn
  // Lengths that count the prompt, of an encoder-decoder the one token that its output begins with; 0: none.
  int64_t max_length = 0, min_length = 0;
  int64_t max_new_tokens = 0, min_new_tokens = 0;  // that do not; 0: none. These come before those
  std::shared_ptr<const TokenRules> rules{};       // nullptr: any token may come
  std::vector<std::string> warnings{};             // what the file says and is not done

  // After a prompt of so many tokens: the longest text, 256 where the file tells none that is longer than the
  // prompt; and before how many tokens none ends.
  int64_t MostTokens(int64_t prompt) const;
  int64_t LeastTokens(int64_t prompt) const;
};

// Of a model that generates. Without the file a text is drawn from the model's probabilities as they are;
// with it the likeliest token comes always, unless it says do_sample. Ids beyond the vocabulary count as
// absent. INVALID_ARGUMENT for what is no number or out of its range, with the field; what is not served is a
// warning.
absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::string& folder, const ModelInfo& info);

}  // namespace heed

#endif  // HEED_ENGINE_GENERATION_GENERATION_DEFAULTS_H_
