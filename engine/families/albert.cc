// "albert" (Lan et al. 2020): post-norm layers that share their weights. Layer i is one of group
// i / (num_hidden_layers / num_hidden_groups), and consists of the group's inner_group_num layers; tables are
// embedding_size wide. Names: albert.encoder.albert_layer_groups.G.albert_layers.J.*
//   MaskedLM, PreTraining   predictions.{dense, LayerNorm, bias}, as wide as the embedding and tied to it
//   SequenceClassification  the pooler (tanh of the first row), classifier
//   TokenClassification     classifier;  QuestionAnswering  qa_outputs
#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

struct Sharing {
  int64_t layers, groups, inner;
  // The native layers; each has weights of its own in memory.
  int64_t count() const { return layers * inner; }
  // The name of the weights of the i-th of them.
  std::string NameOf(int64_t i) const {
    const double of_group = static_cast<double>(layers) / static_cast<double>(groups);
    return Cat("albert_layer_groups.", static_cast<int64_t>(static_cast<double>(i / inner) / of_group),
               ".albert_layers.", i % inner, ".");
  }
};

Sharing ReadSharing(JsonFields& fields) {
  const Sharing sharing{.layers = Size(fields, "num_hidden_layers", 12, kMostLayers),
                        .groups = Size(fields, "num_hidden_groups", 1, kMostLayers),
                        .inner = Size(fields, "inner_group_num", 1, kMostLayers)};
  if (sharing.count() <= kMostLayers) return sharing;
  fields.Fail(Cat("num_hidden_layers: ", sharing.layers, " times inner_group_num ", sharing.inner,
                  " layers; at most ", kMostLayers, " can be served"));
  return {.layers = 1, .groups = 1, .inner = 1};
}

void AddLayer(const std::string& of, const std::string& to, TensorView& tensors) {
  tensors.AddModule(to + "attention.q", of + "attention.query");
  tensors.AddModule(to + "attention.k", of + "attention.key");
  tensors.AddModule(to + "attention.v", of + "attention.value");
  tensors.AddModule(to + "attention.o", of + "attention.dense");
  tensors.AddModule(to + "norm1", of + "attention.LayerNorm");
  tensors.AddModule(to + "ffn.up", of + "ffn");
  tensors.AddModule(to + "ffn.down", of + "ffn_output");
  tensors.AddModule(to + "norm2", of + "full_layer_layer_norm");
}

NativeModel ReadEncoder(Checkpoint& checkpoint, const std::string& prefix) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("position_embedding_type", "absolute");
  NativeModel model{.config = BeginConfig(checkpoint, "encoder", Size(fields, "vocab_size", 30000)),
                    .tensors = TensorView()};
  Json& config = model.config;
  DefaultToken("pad_token_id", 0, config);
  DefaultToken("bos_token_id", 2, config);
  DefaultToken("eos_token_id", 3, config);
  const Sharing sharing = ReadSharing(fields);
  config["hidden_size"] = Size(fields, "hidden_size", 4096);
  config["num_attention_heads"] = Size(fields, "num_attention_heads", 64);
  config["intermediate_size"] = Size(fields, "intermediate_size", 16384);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu_new");
  config["norm"] = "post";
  config["layer_norm_eps"] = fields.Number("layer_norm_eps", 1e-12, 0, 1);
  config["positions"] = "learned";
  config["max_position_embeddings"] = Size(fields, "max_position_embeddings", 512);
  config["embedding_norm"] = true;
  config["embedding_size"] = Size(fields, "embedding_size", 128);
  config["embedding_projection"] = "last";  // also where it changes no width
  config["type_vocab_size"] = Size(fields, "type_vocab_size", 2);
  config["layers"] = Json(sharing.count(), Json{{"attention", {{"type", "full"}}}});

  TensorView& tensors = *model.tensors;
  const std::string embeddings = prefix + "embeddings.";
  tensors.Add("embed.tokens.weight", embeddings + "word_embeddings.weight");
  tensors.Add("embed.positions.weight", embeddings + "position_embeddings.weight");
  tensors.Add("embed.types.weight", embeddings + "token_type_embeddings.weight");
  tensors.AddModule("embed.norm", embeddings + "LayerNorm");
  tensors.AddModule("embed.projection", prefix + "encoder.embedding_hidden_mapping_in");
  for (int64_t i = 0; i < sharing.count(); ++i)
    AddLayer(Cat(prefix, "encoder.", sharing.NameOf(i)), Cat("layers.", i, "."), tensors);
  tensors.Ignore("*position_ids");
  tensors.Ignore("*token_type_ids");
  return model;
}

}  // namespace

absl::StatusOr<NativeModel> ReadAlbertFamily(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("albert."), &task = checkpoint.task();
  NativeModel model = ReadEncoder(checkpoint, prefix);
  Json& config = model.config;
  TensorView& tensors = *model.tensors;
  if (task == "SequenceClassification") {
    AddPooledClassifier(checkpoint, {.module = prefix + "pooler"}, model);
    return model;
  }
  tensors.Ignore(prefix + "pooler.*");
  if (task == "MaskedLM" || task == "PreTraining") {
    AddMaskedHead("predictions", "LayerNorm", config["embedding_size"], config["hidden_act"], model);
    tensors.Ignore("sop_classifier.*");
  } else if (!AddTokenHead(checkpoint, model) && task != "Model") {
    return checkpoint.UnknownTask({"Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification",
                                   "ForTokenClassification", "ForQuestionAnswering"});
  }
  return model;
}

}  // namespace heed
