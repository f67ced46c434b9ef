// "pegasus" (Zhang et al. 2020): BART with pre-norm layers, without a norm after the embedding; positions are
// sinusoids, which the file has or not.
//   ConditionalGeneration  lm_head, tied to the embedding, with final_logits_bias
#include "engine/families/bart.h"

namespace heed {

absl::StatusOr<NativeModel> ReadPegasusFamily(Checkpoint& checkpoint) {
  return ReadBartKind(checkpoint,
                      {.norm_first = true,
                       .positions = MarianPositions,
                       .tokens = {{"pad_token_id", 0}, {"eos_token_id", 1}, {"decoder_start_token_id", 0}}});
}

}  // namespace heed
