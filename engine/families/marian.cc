// "marian" (Junczys-Dowmunt et al. 2018): BART without a norm after the embedding; positions are sinusoids,
// which the file has or not. With share_encoder_decoder_embeddings false each side has a table of tokens of
// its own, of vocabularies of one size.
//   MTModel  lm_head, tied to the decoder's embedding, with final_logits_bias
#include "engine/base/status.h"
#include "engine/families/bart.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadMarianFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const int64_t source = Size(fields, "vocab_size", 58101),
                target = Size(fields, "decoder_vocab_size", source);
  if (target != source)
    fields.Fail(Cat("decoder_vocab_size: ", target, " is not vocab_size, ", source,
                    ": two vocabularies are served if they are of one size"));
  return ReadBartKind(
      checkpoint,
      {.architecture = "MTModel",
       .positions = MarianPositions,
       .shared = fields.Bool("share_encoder_decoder_embeddings", true),
       .vocab_size = source,
       .tokens = {{"eos_token_id", 0}, {"pad_token_id", 58100}, {"decoder_start_token_id", 58100}}});
}

}  // namespace heed
