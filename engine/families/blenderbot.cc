// "blenderbot" (Roller et al. 2020): BART with pre-norm layers, without a norm after the embedding; positions
// are counted from 0. "blenderbot-small": post-norm layers; the norm is the encoder's of tokens and
// positions, the decoder's of tokens alone.
//   ConditionalGeneration  lm_head, tied to the embedding, with final_logits_bias
#include "engine/base/status.h"
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

absl::StatusOr<NativeModel> ReadBlenderbotSmallFamily(Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(NativeModel model, ReadBartKind(checkpoint, {.embedding_norm = true,
                                                                .max_positions = 512,
                                                                .width = 512,
                                                                .layers = 8,
                                                                .decoder_layers = 8,
                                                                .hidden = 2048,
                                                                .tokens = {{"pad_token_id", 0},
                                                                           {"bos_token_id", 1},
                                                                           {"eos_token_id", 2},
                                                                           {"decoder_start_token_id", 1}}}));
  model.config["decoder_embedding_norm_of"] = "tokens";
  return model;
}

}  // namespace heed
