// "mpnet" (Song et al. 2020): BERT's layers without token types. Positions are counted from 2, and one table
// of T5's biases of distances is every layer's: encoder.relative_attention_bias.
//   MaskedLM                lm_head.{dense, layer_norm, bias}, tied to the embedding
//   SequenceClassification  classifier.{dense (tanh), out_proj}, of the first row
//   TokenClassification     classifier;  QuestionAnswering  qa_outputs
#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr int64_t kSkipped = 2;  // rows of the table of positions, whatever pad_token_id says
constexpr int64_t kBuckets = 32, kMaxDistance = 128;

void AddLayer(const std::string& of, const std::string& to, TensorView& tensors) {
  for (const char* name : {"q", "k", "v", "o"})
    tensors.AddModule(Cat(to, "attention.", name), Cat(of, "attention.attn.", name));
  tensors.AddModule(to + "norm1", of + "attention.LayerNorm");
  tensors.AddModule(to + "ffn.up", of + "intermediate.dense");
  tensors.AddModule(to + "ffn.down", of + "output.dense");
  tensors.AddModule(to + "norm2", of + "output.LayerNorm");
}

NativeModel ReadEncoder(Checkpoint& checkpoint, const std::string& prefix) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("relative_attention_num_buckets", kBuckets);
  NativeModel model{.config = BeginConfig(checkpoint, "encoder", Size(fields, "vocab_size", 30527)),
                    .tensors = TensorView()};
  Json& config = model.config;
  const int64_t layers = Size(fields, "num_hidden_layers", 12, kMostLayers);
  DefaultToken("bos_token_id", 0, config);
  DefaultToken("pad_token_id", 1, config);
  DefaultToken("eos_token_id", 2, config);
  config["hidden_size"] = Size(fields, "hidden_size", 768);
  config["num_attention_heads"] = Size(fields, "num_attention_heads", 12);
  config["intermediate_size"] = Size(fields, "intermediate_size", 3072);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu");
  config["norm"] = "post";
  config["layer_norm_eps"] = fields.Number("layer_norm_eps", 1e-12, 0, 1);
  config["positions"] = "learned";
  config["max_position_embeddings"] = Size(fields, "max_position_embeddings", 512) - kSkipped;
  config["embedding_norm"] = true;
  const Json bias = {{"buckets", kBuckets}, {"max_distance", kMaxDistance}};
  config["layers"] = Json(layers, Json{{"attention", {{"type", "softmax"}, {"relative_bias", bias}}}});

  TensorView& tensors = *model.tensors;
  tensors.Add("embed.tokens.weight", prefix + "embeddings.word_embeddings.weight");
  tensors.Add("embed.positions.weight",
              ViewedTensor(prefix + "embeddings.position_embeddings.weight").RowsFrom(kSkipped));
  tensors.AddModule("embed.norm", prefix + "embeddings.LayerNorm");
  for (int64_t i = 0; i < layers; ++i) {
    const std::string to = Cat("layers.", i, ".");
    AddLayer(Cat(prefix, "encoder.layer.", i, "."), to, tensors);
    tensors.Add(to + "attention.relative_bias", prefix + "encoder.relative_attention_bias.weight");
  }
  tensors.Ignore("*position_ids");
  tensors.Ignore(prefix + "pooler.*");
  return model;
}

}  // namespace

absl::StatusOr<NativeModel> ReadMpnetFamily(Checkpoint& checkpoint) {
  const std::string& task = checkpoint.task();
  NativeModel model = ReadEncoder(checkpoint, checkpoint.Prefix("mpnet."));
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
