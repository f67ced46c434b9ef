// "longt5" (Guo et al. 2022): T5 whose encoder's rows see those at most local_radius to either side
// (encoder_attention_type "local") and, with "transient-global", a summary of each block of global_block_size
// rows. Names as T5's, the encoder's attention is LocalSelfAttention or TransientGlobalSelfAttention.
//   ConditionalGeneration  lm_head, or the shared embedding;  EncoderModel  the encoder's rows
#include <utility>

#include "engine/base/status.h"
#include "engine/families/parts.h"
#include "engine/families/t5.h"

namespace heed {

absl::StatusOr<NativeModel> ReadLongT5Family(Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(NativeModel model, ReadT5Kind(checkpoint, {.type = "longt5"}));
  JsonFields& fields = checkpoint.fields();
  const int64_t radius = Size(fields, "local_radius", 127);
  const std::string to = checkpoint.task() == "EncoderModel" ? "" : "encoder.";
  const bool summaries =
      fields.Choice("encoder_attention_type", {"local", "transient-global"}) == "transient-global";
  const std::string module = summaries ? "TransientGlobalSelfAttention." : "LocalSelfAttention.";
  TensorView& tensors = *model.tensors;
  for (size_t i = 0; i < model.config["layers"].size(); ++i) {
    Json& attention = model.config["layers"][i]["attention"];
    const std::string of = Cat("encoder.block.", i, ".layer.0.", module),
                      of_first = "encoder.block.0.layer.0." + module,
                      name = Cat(to, "layers.", i, ".attention.");
    for (const char* product : {"q", "k", "v", "o"}) tensors.AddModule(name + product, of + product);
    tensors.Add(name + "relative_bias", of_first + "relative_attention_bias.weight");
    if (!summaries) {
      attention["window"] = 2 * radius;
      continue;
    }
    attention["type"] = "transient_global";
    attention["radius"] = radius;
    attention["global_block"] = Size(fields, "global_block_size", 16);
    tensors.Add(name + "global_relative_bias", of_first + "global_relative_attention_bias.weight");
    tensors.AddModule(name + "global_norm", of + "global_input_layer_norm");
  }
  return model;
}

}  // namespace heed
