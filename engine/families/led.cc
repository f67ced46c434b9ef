// "led" (Beltagy et al. 2020): BART whose encoder has Longformer's attention. Positions are counted from 0,
// and the two sides have tables of their own sizes. A request names global tokens; without, there are none.
//   ConditionalGeneration  lm_head, tied to the embedding, with final_logits_bias;  BART's other heads
#include "engine/base/status.h"
#include "engine/families/bart.h"
#include "engine/families/parts.h"
#include "engine/families/windows.h"

namespace heed {

absl::StatusOr<NativeModel> ReadLedFamily(Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(NativeModel model, ReadBartKind(checkpoint, {.prefix = "led.",
                                                                .embedding_norm = true,
                                                                .reads = true,
                                                                .tokens = {{"bos_token_id", 0},
                                                                           {"pad_token_id", 1},
                                                                           {"eos_token_id", 2},
                                                                           {"decoder_start_token_id", 2}}}));
  JsonFields& fields = checkpoint.fields();
  Json& config = model.config;
  TensorView& tensors = *model.tensors;
  config["max_position_embeddings"] = Size(fields, "max_encoder_position_embeddings", 16384);
  config["decoder_max_position_embeddings"] = Size(fields, "max_decoder_position_embeddings", 1024);
  for (size_t i = 0; i < config["layers"].size(); ++i) {
    config["layers"][i]["attention"] = WindowOf(fields, static_cast<int64_t>(i));
    const std::string of = Cat("led.encoder.layers.", i, ".self_attn."),
                      to = Cat("encoder.layers.", i, ".attention."), own = of + "longformer_self_attn.";
    tensors.AddModule(to + "q", own + "query");
    tensors.AddModule(to + "k", own + "key");
    tensors.AddModule(to + "v", own + "value");
    tensors.AddModule(to + "o", of + "output");
    AddGlobalProducts(own, to, tensors);
  }
  return model;
}

}  // namespace heed
