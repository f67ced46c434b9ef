// "fnet" (Lee-Thorp et al. 2021): BERT's layers with a Fourier transform in the place of attention, and a
// product behind the embedding's norm (embeddings.projection). Names as BERT's, below "fnet.";
// fourier.output.LayerNorm.
//   MaskedLM, PreTraining   cls.predictions.{transform.{dense, LayerNorm}, bias}, tied to the embedding
//   SequenceClassification  the pooler (tanh of the first row), classifier
//   TokenClassification     classifier;  QuestionAnswering  qa_outputs;  Model  the rows as they are
#include "engine/base/status.h"
#include "engine/families/bert.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

NativeModel ReadEncoder(Checkpoint& checkpoint, const std::string& prefix) {
  NativeModel model = ReadBertEncoder(checkpoint, {.prefix = prefix});
  JsonFields& fields = checkpoint.fields();
  Json& config = model.config;
  config["vocab_size"] = Size(fields, "vocab_size", 32000);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu_new");
  config["num_attention_heads"] = 1;
  config["type_vocab_size"] = fields.Int("type_vocab_size", 4, 0, kMostSize);
  config["embedding_projection"] = "last";
  TensorView& tensors = *model.tensors;
  tensors.AddModule("embed.projection", prefix + "embeddings.projection");
  for (size_t i = 0; i < config["layers"].size(); ++i) {
    config["layers"][i]["attention"] = {{"type", "fourier"}};
    tensors.AddModule(Cat("layers.", i, ".norm1"),
                      Cat(prefix, "encoder.layer.", i, ".fourier.output.LayerNorm"));
  }
  return model;
}

}  // namespace

absl::StatusOr<NativeModel> ReadFnetFamily(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("fnet.");
  return WithBertHead(checkpoint, prefix, ReadEncoder(checkpoint, prefix));
}

}  // namespace heed
