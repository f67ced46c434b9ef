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
  model.tensors->Ignore(prefix + "pooler.*");
  if (task == "MaskedLM") {
    AddMaskedHead("lm_head", "layer_norm", model.config["hidden_size"], "gelu", model);
  } else if (task == "SequenceClassification") {
    AddFirstRowClassifier(checkpoint, "classifier", "tanh", model);
  } else if (!AddTokenHead(checkpoint, model) && task != "Model") {
    return checkpoint.UnknownTask({"Model", "ForMaskedLM", "ForSequenceClassification",
                                   "ForTokenClassification", "ForQuestionAnswering"});
  }
  return model;
}

}  // namespace heed
