// "electra" (Clark et al. 2020): BERT's layers, over embeddings that may be narrower than they are.
//   PreTraining             discriminator_predictions.{dense, dense_prediction}: a score for each token
//   MaskedLM                generator_predictions.{dense, LayerNorm}, as wide as the embedding and tied to it
//   SequenceClassification  classifier.{dense (gelu), out_proj}, of the first row
//   TokenClassification     classifier;  QuestionAnswering  qa_outputs
#include "engine/base/status.h"
#include "engine/families/bert.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadElectraFamily(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("electra."), &task = checkpoint.task();
  NativeModel model = ReadBertEncoder(checkpoint, {.prefix = prefix, .embedding_size = 128});
  Json& config = model.config;
  TensorView& tensors = *model.tensors;
  const Json width = config["hidden_size"];
  if (task == "PreTraining") {
    config["head"] = "token_classification";
    config["num_labels"] = 1;
    config["id2label"] = {{"0", "replaced"}};
    config["problem_type"] = "multi_label_classification";
    AddHeadLayer(width, config["hidden_act"], /*norm=*/false, config);
    tensors.AddModule("head_layers.0", "discriminator_predictions.dense");
    tensors.AddModule("classifier", "discriminator_predictions.dense_prediction");
  } else if (task == "MaskedLM") {
    config["head"] = "lm";
    AddHeadLayer(config.value("embedding_size", width), "gelu", /*norm=*/true, config);
    tensors.AddModule("head_layers.0", "generator_predictions.dense");
    tensors.AddModule("head_layers.0.norm", "generator_predictions.LayerNorm");
    tensors.AddModule("lm_head", "generator_lm_head");
  } else if (task == "SequenceClassification") {
    AddFirstRowClassifier(checkpoint, "classifier", "gelu", model);
  } else if (!AddTokenHead(checkpoint, model) && task != "Model") {
    return checkpoint.UnknownTask({"Model", "ForPreTraining", "ForMaskedLM", "ForSequenceClassification",
                                   "ForTokenClassification", "ForQuestionAnswering"});
  }
  return model;
}

}  // namespace heed
