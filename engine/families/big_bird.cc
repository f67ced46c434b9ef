// "big_bird" (Zaheer et al. 2020): BERT's layers. With attention_type "original_full" all tokens see all,
// with "block_sparse" those near them, the first and the last block, as block_sparse.h has it.
//   MaskedLM, PreTraining   cls.predictions.{transform.{dense, LayerNorm}, bias}, tied to the embedding
//   SequenceClassification  classifier.{dense (hidden_act), out_proj}, of the first row
//   TokenClassification     classifier
#include <cmath>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/bert.h"
#include "engine/families/block_sparse.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// A plan of random blocks, [heads, blocks - 2, num_random_blocks] of a layer, that stands beside the weights
// (by golden cases): the blocks that transformers draws when it trains.
void TakePlan(Checkpoint& checkpoint, NativeModel& model) {
  Json& layers = model.config["layers"];
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string stored = Cat("rand_attn.", i);
    Json& attention = layers[i]["attention"];
    if (!checkpoint.Has(stored) || attention["type"] != "bigbird") return;
    const std::vector<int64_t> shape = checkpoint.ShapeOf(stored);
    if (shape.size() != 3) return checkpoint.fields().Fail(stored + " is no plan of blocks");
    attention.erase("first_block_count");
    attention["num_blocks"] = shape[1] + 2;
    attention["num_random_blocks"] = shape[2];
    model.tensors->Add(Cat("layers.", i, ".attention.random_blocks"), stored);
  }
}

// Keys that have other defaults than BERT's, and those that BERT has not.
void ReadShape(JsonFields& fields, Json& config) {
  config["vocab_size"] = Size(fields, "vocab_size", 50358);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu_new");
  const int64_t positions = Size(fields, "max_position_embeddings", 4096);
  config["max_position_embeddings"] = positions;
  const Json attention = BlockSparseAttention(fields, positions);
  for (Json& layer : config["layers"]) layer["attention"] = attention;
  if (fields.Bool("rescale_embeddings", false))
    config["embedding_scale"] = std::sqrt(config["hidden_size"].get<double>());
}

}  // namespace

absl::StatusOr<NativeModel> ReadBigBirdFamily(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("bert."), &task = checkpoint.task();
  NativeModel model = ReadBertEncoder(checkpoint, {.prefix = prefix});
  ReadShape(checkpoint.fields(), model.config);
  TakePlan(checkpoint, model);
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
