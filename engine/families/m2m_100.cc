// "m2m_100" (Fan et al. 2020; NLLB, 2022): BART with pre-norm layers, without a norm after the embedding;
// positions are sinusoids, counted from 2, which the file has not.
//   ConditionalGeneration  lm_head, tied to the embedding
#include "engine/families/bart.h"

namespace heed {

absl::StatusOr<NativeModel> ReadM2m100Family(Checkpoint& checkpoint) {
  return ReadBartKind(
      checkpoint,
      {.norm_first = true,
       .positions = M2m100Positions,
       .vocab_size = 128112,
       .activation = "relu",
       .scale_embedding = true,
       .tokens = {
           {"bos_token_id", 0}, {"pad_token_id", 1}, {"eos_token_id", 2}, {"decoder_start_token_id", 2}}});
}

}  // namespace heed
