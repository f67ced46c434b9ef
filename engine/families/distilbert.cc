// "distilbert" (Sanh et al. 2019): BERT's layers under names of their own, without token types.
//   MaskedLM                vocab_transform, vocab_layer_norm; vocab_projector, tied to the embedding
//   SequenceClassification  pre_classifier (relu), classifier, of the first row
//   TokenClassification     classifier;  QuestionAnswering  qa_outputs
#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

void AddLayer(const std::string& of, const std::string& to, TensorView& tensors) {
  for (const char* name : {"q", "k", "v"})
    tensors.AddModule(Cat(to, "attention.", name), Cat(of, "attention.", name, "_lin"));
  tensors.AddModule(to + "attention.o", of + "attention.out_lin");
  tensors.AddModule(to + "norm1", of + "sa_layer_norm");
  tensors.AddModule(to + "ffn.up", of + "ffn.lin1");
  tensors.AddModule(to + "ffn.down", of + "ffn.lin2");
  tensors.AddModule(to + "norm2", of + "output_layer_norm");
}

NativeModel ReadEncoder(Checkpoint& checkpoint, const std::string& prefix) {
  JsonFields& fields = checkpoint.fields();
  NativeModel model{.config = BeginConfig(checkpoint, "encoder", Size(fields, "vocab_size", 30522)),
                    .tensors = TensorView()};
  Json& config = model.config;
  const int64_t layers = Size(fields, "n_layers", 6, kMostLayers);
  DefaultToken("pad_token_id", 0, config);
  config["hidden_size"] = Size(fields, "dim", 768);
  config["num_attention_heads"] = Size(fields, "n_heads", 12);
  config["intermediate_size"] = Size(fields, "hidden_dim", 3072);
  config["hidden_act"] = ActivationName(fields, "activation", "gelu");
  config["norm"] = "post";
  config["layer_norm_eps"] = 1e-12;
  config["positions"] = "learned";  // with sinusoidal_pos_embds too: the file has the table
  config["max_position_embeddings"] = Size(fields, "max_position_embeddings", 512);
  config["embedding_norm"] = true;
  config["layers"] = Json(layers, Json{{"attention", {{"type", "full"}}}});

  TensorView& tensors = *model.tensors;
  tensors.Add("embed.tokens.weight", prefix + "embeddings.word_embeddings.weight");
  tensors.Add("embed.positions.weight", prefix + "embeddings.position_embeddings.weight");
  tensors.AddModule("embed.norm", prefix + "embeddings.LayerNorm");
  for (int64_t i = 0; i < layers; ++i)
    AddLayer(Cat(prefix, "transformer.layer.", i, "."), Cat("layers.", i, "."), tensors);
  tensors.Ignore("*position_ids");
  return model;
}

}  // namespace

absl::StatusOr<NativeModel> ReadDistilBertFamily(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("distilbert."), &task = checkpoint.task();
  NativeModel model = ReadEncoder(checkpoint, prefix);
  Json& config = model.config;
  TensorView& tensors = *model.tensors;
  if (task == "MaskedLM") {
    config["head"] = "lm";
    AddHeadLayer(config["hidden_size"], config["hidden_act"], /*norm=*/true, config);
    tensors.AddModule("head_layers.0", "vocab_transform");
    tensors.AddModule("head_layers.0.norm", "vocab_layer_norm");
    tensors.AddModule("lm_head", "vocab_projector");
  } else if (task == "SequenceClassification") {
    AddPooledClassifier(checkpoint, {.module = "pre_classifier", .hidden_act = "relu"}, model);
  } else if (!AddTokenHead(checkpoint, model) && task != "Model") {
    return checkpoint.UnknownTask({"Model", "ForMaskedLM", "ForSequenceClassification",
                                   "ForTokenClassification", "ForQuestionAnswering"});
  }
  return model;
}

}  // namespace heed
