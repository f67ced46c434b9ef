// "ultrabert" (2026): Llama's layers, of which each row sees all or, in sliding layers, sliding_window to
// either side; each type of layers is turned as rope_parameters says of it. Names as Llama's, below
// "ultrabert.".
//   MaskedLM                head.{linear1, linear2} (both with tanh gelu), cls
//   SequenceClassification  classifier, of the first row or the mean of all (classifier_pooling "cls",
//   "mean") TokenClassification     classifier;  Model  the rows as they are
#include "engine/families/llama.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

Decoder ReadEncoder(Checkpoint& checkpoint) {
  Decoder encoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 128256,
                                                  .hidden_size = 768,
                                                  .intermediate_size = 3072,
                                                  .num_hidden_layers = 12,
                                                  .num_attention_heads = 12,
                                                  .rope = {.theta = 160000},
                                                  .base = "ultrabert."});
  encoder.config()["architecture"] = "encoder";
  const std::vector<bool> sliding =
      SlidingLayers(checkpoint, encoder.layers, [](int64_t i) { return i % 3 != 0; });
  SetWindows(sliding, 2 * WindowOf(checkpoint, 64), encoder);
  for (int64_t i = 0; i < encoder.layers; ++i) {
    if (!sliding[i]) continue;
    encoder.attention(i).erase("rope");
    const Json rope = ReadRope(checkpoint, {}, encoder.head_dim, "sliding_attention");
    if (!rope.is_null()) encoder.attention(i)["rope"] = rope;
  }
  return encoder;
}

void AddLanguageModel(Checkpoint& checkpoint, Decoder& encoder) {
  Json& config = encoder.config();
  config["head"] = "lm";
  AddHeadLayer(Size(checkpoint.fields(), "prediction_head_size", 768), "gelu_new", /*norm=*/false, config);
  AddHeadLayer(config["hidden_size"], "gelu_new", /*norm=*/false, config);
  encoder.tensors().AddModule("head_layers.0", "head.linear1");
  encoder.tensors().AddModule("head_layers.1", "head.linear2");
  encoder.tensors().AddModule("lm_head", "cls");
}

}  // namespace

absl::StatusOr<NativeModel> ReadUltrabertFamily(Checkpoint& checkpoint) {
  Decoder encoder = ReadEncoder(checkpoint);
  if (checkpoint.task() == "MaskedLM") {
    AddLanguageModel(checkpoint, encoder);
  } else if (checkpoint.task() == "SequenceClassification") {
    SetLabels(checkpoint, "classification", encoder.config());
    const std::string pooling = checkpoint.fields().Choice("classifier_pooling", {"cls", "mean"});
    encoder.config()["pooling"] = pooling == "mean" ? "mean" : "first";
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
