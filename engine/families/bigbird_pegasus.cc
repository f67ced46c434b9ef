// "bigbird_pegasus" (Zaheer et al. 2020): BART with pre-norm layers, whose encoder has BigBird's attention
// (attention_type "block_sparse") or sees all ("original_full"). Positions are counted from 0; the norm after
// the last layer is called layernorm_embedding.
//   ConditionalGeneration  lm_head, tied to the embedding, with final_logits_bias;  BART's other heads
#include "engine/base/status.h"
#include "engine/families/bart.h"
#include "engine/families/block_sparse.h"

namespace heed {

absl::StatusOr<NativeModel> ReadBigBirdPegasusFamily(Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(NativeModel model, ReadBartKind(checkpoint, {.norm_first = true,
                                                                .reads = true,
                                                                .vocab_size = 96103,
                                                                .max_positions = 4096,
                                                                .layers = 16,
                                                                .decoder_layers = 16,
                                                                .activation = "gelu_new",
                                                                .scale_embedding = true,
                                                                .tokens = {{"pad_token_id", 0},
                                                                           {"bos_token_id", 2},
                                                                           {"eos_token_id", 1},
                                                                           {"decoder_start_token_id", 2}}}));
  TensorView& tensors = *model.tensors;
  for (const char* side : {"encoder", "decoder"}) {
    tensors.AddModule(Cat(side, ".norm"), Cat("model.", side, ".layernorm_embedding"));
    for (const char* part : {".weight", ".bias"}) tensors.Remove(Cat(side, ".embed.norm", part));
  }
  const Json attention = BlockSparseAttention(checkpoint.fields(), model.config["max_position_embeddings"]);
  for (size_t i = 0; i < model.config["layers"].size(); ++i) {
    model.config["layers"][i]["attention"] = attention;
    const std::string of = Cat("model.encoder.layers.", i, ".self_attn."),
                      to = Cat("encoder.layers.", i, ".attention.");
    tensors.AddModule(to + "q", of + "self.query");
    tensors.AddModule(to + "k", of + "self.key");
    tensors.AddModule(to + "v", of + "self.value");
    tensors.AddModule(to + "o", of + "output");
  }
  return model;
}

}  // namespace heed
