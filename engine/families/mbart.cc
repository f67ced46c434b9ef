// "mbart" (Liu et al. 2020): BART with pre-norm layers and a norm after the last. A target begins with the id
// of its language, which config.json need not name.
//   ConditionalGeneration  lm_head, tied to the embedding, with final_logits_bias
#include "engine/families/bart.h"

namespace heed {

absl::StatusOr<NativeModel> ReadMbartFamily(Checkpoint& checkpoint) {
  return ReadBartKind(checkpoint,
                      {.norm_first = true,
                       .embedding_norm = true,
                       .skipped = 2,
                       .tokens = {{"bos_token_id", 0}, {"pad_token_id", 1}, {"eos_token_id", 2}}});
}

}  // namespace heed
