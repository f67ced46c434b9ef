// "roberta" (Liu et al. 2019), "xlm-roberta", "camembert": BERT's layers, positions counted from pad_token_id
// + 1.
//   MaskedLM                lm_head.{dense, layer_norm, bias}, tied to the embedding
//   SequenceClassification  classifier.{dense (tanh), out_proj}, of the first row
//   TokenClassification     classifier;  QuestionAnswering  qa_outputs
#include "engine/base/status.h"
#include "engine/families/bert.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadRobertaFamily(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("roberta.");
  const int64_t padding = checkpoint.fields().Int("pad_token_id", 1, 0, kMostSize);
  return WithRobertaHead(checkpoint, prefix,
                         ReadBertEncoder(checkpoint, {.prefix = prefix, .skipped = padding + 1}));
}

absl::StatusOr<NativeModel> WithRobertaHead(Checkpoint& checkpoint, const std::string& prefix,
                                            NativeModel model) {
  const std::string& task = checkpoint.task();
  Json& config = model.config;
  TensorView& tensors = *model.tensors;
  if (task == "MaskedLM") {
    config["head"] = "lm";
    AddHeadLayer(config["hidden_size"], "gelu", /*norm=*/true, config);
    tensors.AddModule("head_layers.0", "lm_head.dense");
    tensors.AddModule("head_layers.0.norm", "lm_head.layer_norm");
    tensors.Add("lm_head.weight", std::string("lm_head.decoder.weight"));
    tensors.Add("lm_head.bias", std::string("lm_head.bias"));
    tensors.Ignore("lm_head.decoder.bias");  // the same again
  } else if (task == "SequenceClassification") {
    SetLabels(checkpoint, "classification", config);
    config["pooling"] = "first";
    AddHeadLayer(config["hidden_size"], "tanh", /*norm=*/false, config);
    tensors.AddModule("head_layers.0", "classifier.dense");
    tensors.AddModule("classifier", "classifier.out_proj");
  } else if (task == "TokenClassification") {
    SetLabels(checkpoint, "token_classification", config);
    tensors.AddModule("classifier", "classifier");
  } else if (task == "QuestionAnswering") {
    SetSpanLabels(config);
    tensors.AddModule("classifier", "qa_outputs");
  } else if (task != "Model") {
    return checkpoint.UnknownTask({"Model", "ForMaskedLM", "ForSequenceClassification",
                                   "ForTokenClassification", "ForQuestionAnswering"});
  }
  tensors.Ignore(prefix + "pooler.*");
  return model;
}

}  // namespace heed
