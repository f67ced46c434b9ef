// "big_bird" (Zaheer et al. 2020): BERT's layers. With attention_type "original_full" all tokens see all;
// with "block_sparse" transformers reads texts of up to (5 + 2 num_random_blocks) block_size tokens in the
// same way, and those alone are served.
//   MaskedLM, PreTraining   cls.predictions.{transform.{dense, LayerNorm}, bias}, tied to the embedding
//   SequenceClassification  classifier.{dense (hidden_act), out_proj}, of the first row
//   TokenClassification     classifier
#include <algorithm>
#include <cmath>

#include "engine/base/status.h"
#include "engine/families/bert.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// Keys that have other defaults than BERT's, and those that BERT has not.
void ReadShape(JsonFields& fields, NativeModel& model) {
  Json& config = model.config;
  config["vocab_size"] = Size(fields, "vocab_size", 50358);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu_new");
  int64_t positions = Size(fields, "max_position_embeddings", 4096);
  if (fields.Choice("attention_type", {"block_sparse", "original_full"}) == "block_sparse") {
    const int64_t blocks = 5 + 2 * fields.Int("num_random_blocks", 3, 0, kMostLayers);
    positions = std::min(positions, blocks * Size(fields, "block_size", 64, kMostSize));
    model.tensors->Add("embed.positions.weight",
                       model.tensors->Find("embed.positions.weight")->Rows(0, positions));
  }
  config["max_position_embeddings"] = positions;
  if (fields.Bool("rescale_embeddings", false))
    config["embedding_scale"] = std::sqrt(config["hidden_size"].get<double>());
}

}  // namespace

absl::StatusOr<NativeModel> ReadBigBirdFamily(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("bert."), &task = checkpoint.task();
  NativeModel model = ReadBertEncoder(checkpoint, {.prefix = prefix});
  ReadShape(checkpoint.fields(), model);
  TensorView& tensors = *model.tensors;
  tensors.Ignore(prefix + "pooler.*");
  if (task == "MaskedLM" || task == "PreTraining") {
    AddPredictions(model);
  } else if (task == "SequenceClassification") {
    AddFirstRowClassifier(checkpoint, "classifier", model.config["hidden_act"], model);
  } else if (task == "TokenClassification") {
    AddTokenHead(checkpoint, model);
  } else if (task != "Model") {
    return checkpoint.UnknownTask(
        {"Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification"});
  }
  return model;
}

}  // namespace heed
