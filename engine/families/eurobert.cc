// "eurobert" (Boizard et al. 2025): Llama's layers, of which each row sees all.
//   MaskedLM                lm_head
//   SequenceClassification  dense (gelu), classifier, of the first row or the mean of all (classifier_pooling
//                           "bos", "mean"; "late": the mean of all rows' logits)
//   TokenClassification     classifier;  Model  the rows as they are
#include "engine/families/llama.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadEurobertFamily(Checkpoint& checkpoint) {
  Decoder encoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 128256,
                                                  .hidden_size = 768,
                                                  .intermediate_size = 3072,
                                                  .num_hidden_layers = 12,
                                                  .num_attention_heads = 12,
                                                  .tokens = {.bos = 128000, .eos = 128001, .pad = 128001},
                                                  .eps = 1e-5,
                                                  .rope = {.theta = 250000}});
  encoder.config()["architecture"] = "encoder";
  JsonFields& fields = checkpoint.fields();
  if (checkpoint.task() == "MaskedLM") {
    encoder.config()["head"] = "lm";
    encoder.tensors().AddModule("lm_head", "lm_head");
  } else if (checkpoint.task() == "SequenceClassification") {
    Json& config = encoder.config();
    SetLabels(checkpoint, "classification", config);
    const std::string pooling = fields.Choice("classifier_pooling", {"late", "bos", "mean"});
    config["pooling"] = pooling == "bos" ? "first" : "mean";
    config["late_pooling"] = pooling == "late";
    AddHeadLayer(config["hidden_size"], "gelu", /*norm=*/false, config);
    encoder.tensors().AddModule("head_layers.0", "dense");
    encoder.tensors().AddModule("classifier", "classifier");
  } else if (checkpoint.task() == "TokenClassification") {
    AddTokenHead(checkpoint, encoder.model);
  } else if (checkpoint.task() != "Model") {
    return checkpoint.UnknownTask(
        {"Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"});
  }
  return std::move(encoder.model);
}

}  // namespace heed
