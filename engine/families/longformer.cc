// "longformer" (Beltagy et al. 2020): RoBERTa's layers with attention in windows, attention_window[I] of
// layer I or one for all: a token sees half of it to either side, and global tokens, which see all and have
// products of their own. A request names them; where it does not, sequence classification takes the first
// token.
//   MaskedLM                lm_head.{dense, layer_norm, bias}, tied to the embedding
//   SequenceClassification  classifier.{dense (tanh), out_proj}, of the first row
//   TokenClassification     classifier
// Not served: question answering, whose global tokens are those before the first separator.
#include "engine/base/status.h"
#include "engine/families/bert.h"
#include "engine/families/parts.h"
#include "engine/families/windows.h"

namespace heed {

absl::StatusOr<NativeModel> ReadLongformerFamily(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("longformer."), &task = checkpoint.task();
  const int64_t padding = checkpoint.fields().Int("pad_token_id", 1, 0, kMostSize);
  NativeModel model = ReadBertEncoder(checkpoint, {.prefix = prefix, .skipped = padding + 1});
  TensorView& tensors = *model.tensors;
  for (size_t i = 0; i < model.config["layers"].size(); ++i) {
    Json& attention = model.config["layers"][i]["attention"];
    attention = WindowOf(checkpoint.fields(), static_cast<int64_t>(i));
    if (task == "SequenceClassification") attention["global_tokens"] = Json::array({0});
    AddGlobalProducts(Cat(prefix, "encoder.layer.", i, ".attention.self."), Cat("layers.", i, ".attention."),
                      tensors);
  }
  if (task == "MaskedLM") {
    AddMaskedHead("lm_head", "layer_norm", model.config["hidden_size"], "gelu", model);
  } else if (task == "SequenceClassification") {
    AddFirstRowClassifier(checkpoint, "classifier", "tanh", model);
  } else if (task == "TokenClassification") {
    AddTokenHead(checkpoint, model);
  } else if (task != "Model") {
    return checkpoint.UnknownTask(
        {"Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"});
  }
  tensors.Ignore(prefix + "pooler.*");
  return model;
}

}  // namespace heed
