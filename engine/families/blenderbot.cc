// "blenderbot" (Roller et al. 2020): BART with pre-norm layers, without a norm after the embedding; positions
// are counted from 0.
//   ConditionalGeneration  lm_head, tied to the embedding, with final_logits_bias
#include "engine/families/bart.h"

namespace heed {

absl::StatusOr<NativeModel> ReadBlenderbotFamily(Checkpoint& checkpoint) {
  return ReadBartKind(
      checkpoint,
      {.norm_first = true,
       .vocab_size = 8008,
       .max_positions = 128,
       .width = 2560,
       .layers = 2,
       .decoder_layers = 24,
       .hidden = 10240,
       .heads = 32,
       .tokens = {
           {"pad_token_id", 0}, {"bos_token_id", 1}, {"eos_token_id", 2}, {"decoder_start_token_id", 1}}});
}

}  // namespace heed
