// "deberta-v2" (DeBERTa V2 and V3, He et al. 2021, 2023): BERT's layers with disentangled attention, whose
// table of relative positions all layers share (encoder.rel_embeddings, encoder.LayerNorm). Names:
// deberta.embeddings.*, deberta.encoder.layer.I.attention.self.{query_proj, key_proj, value_proj,
// pos_key_proj, pos_query_proj}, the rest as BERT's.
//   MaskedLM                cls.predictions.* or, with legacy false, lm_predictions.lm_head.{dense,
//   LayerNorm, bias};
//                           tied to the embedding
//   SequenceClassification  pooler.dense (pooler_hidden_act) of the first row, classifier
//   TokenClassification     classifier;  QuestionAnswering  qa_outputs
// With conv_kernel_size a convolution over the embeddings joins after the first layer: encoder.conv.{conv,
// LayerNorm}. Not served: one of groups (conv_groups), relative_attention false.
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// "c2p|p2c" or ["c2p", "p2c"].
bool Lists(const Json& kinds, const std::string& kind) {
  if (kinds.is_string()) return kinds.get<std::string>().find(kind) != std::string::npos;
  if (!kinds.is_array()) return false;
  for (const Json& of : kinds) {
    if (of == kind) return true;
  }
  return false;
}

Json ReadAttention(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const Json& relative = fields.Raw("relative_attention");
  if (!relative.is_null() && relative != true)
    fields.Fail(Cat("relative_attention: ", Shown(relative), " is not served; true is"));
  const int64_t longest = fields.Int("max_relative_positions", -1, -1, kMostSize);
  const int64_t positions = Size(fields, "max_position_embeddings", 512);
  const int64_t buckets = fields.Int("position_buckets", -1, -1, kMostSize);
  const Json& kinds = fields.Raw("pos_att_type");
  Json attention = {{"type", "disentangled"},
                    {"max_distance", longest < 1 ? positions : longest},
                    {"c2p", Lists(kinds, "c2p")},
                    {"p2c", Lists(kinds, "p2c")}};
  if (buckets > 0) attention["buckets"] = buckets;
  const std::string norm = fields.String("norm_rel_ebd", "none");
  if (norm.find("layer_norm") != std::string::npos)
    attention["relative_eps"] = fields.Number("layer_norm_eps", 1e-7, 0, 1);
  return attention;
}

void AddLayer(const std::string& prefix, int64_t i, bool shared, TensorView& tensors) {
  const std::string of = Cat(prefix, "encoder.layer.", i, "."), to = Cat("layers.", i, "."),
                    self = of + "attention.self.", attention = to + "attention.";
  tensors.AddModule(attention + "q", self + "query_proj");
  tensors.AddModule(attention + "k", self + "key_proj");
  tensors.AddModule(attention + "v", self + "value_proj");
  tensors.AddModule(attention + "relative_q", self + (shared ? "query_proj" : "pos_query_proj"));
  tensors.AddModule(attention + "relative_k", self + (shared ? "key_proj" : "pos_key_proj"));
  tensors.Add(attention + "relative.weight", prefix + "encoder.rel_embeddings.weight");
  tensors.AddModule(attention + "relative_norm", prefix + "encoder.LayerNorm");
  tensors.AddModule(attention + "o", of + "attention.output.dense");
  tensors.AddModule(to + "norm1", of + "attention.output.LayerNorm");
  tensors.AddModule(to + "ffn.up", of + "intermediate.dense");
  tensors.AddModule(to + "ffn.down", of + "output.dense");
  tensors.AddModule(to + "norm2", of + "output.LayerNorm");
}

void AddConvolution(Checkpoint& checkpoint, const std::string& prefix, NativeModel& model) {
  JsonFields& fields = checkpoint.fields();
  const int64_t kernel = fields.Int("conv_kernel_size", 0, 0, kMostSize);
  if (kernel == 0) return;
  checkpoint.Require("conv_groups", 1);
  model.config["layers"][0]["convolution"] = {{"kernel", kernel},
                                              {"hidden_act", ActivationName(fields, "conv_act", "tanh")}};
  const std::string of = prefix + "encoder.conv.";
  model.tensors->Add("layers.0.convolution.weight",
                     ViewedTensor(of + "conv.weight")
                         .SwappedLast()
                         .Shaped({model.config["hidden_size"].get<int64_t>(), -1}));
  model.tensors->Add("layers.0.convolution.bias", of + "conv.bias");
  model.tensors->AddModule("layers.0.norm_convolution", of + "LayerNorm");
}

NativeModel ReadEncoder(Checkpoint& checkpoint, const std::string& prefix) {
  JsonFields& fields = checkpoint.fields();
  const int64_t width = Size(fields, "hidden_size", 1536),
                layers = Size(fields, "num_hidden_layers", 24, kMostLayers),
                embedding_size = Size(fields, "embedding_size", width);
  NativeModel model{.config = BeginConfig(checkpoint, "encoder", Size(fields, "vocab_size", 128100)),
                    .tensors = TensorView()};
  Json& config = model.config;
  config["hidden_size"] = width;
  config["num_attention_heads"] = Size(fields, "num_attention_heads", 24);
  config["intermediate_size"] = Size(fields, "intermediate_size", 6144);
  config["hidden_act"] = ActivationName(fields, "hidden_act", "gelu");
  config["norm"] = "post";
  config["layer_norm_eps"] = fields.Number("layer_norm_eps", 1e-7, 0, 1);
  config["embedding_norm"] = true;
  if (embedding_size != width) {
    config["embedding_size"] = embedding_size;
    config["embedding_projection"] = "before_norm";
  }
  if (fields.Bool("position_biased_input", true)) {
    config["positions"] = "learned";
    config["max_position_embeddings"] = Size(fields, "max_position_embeddings", 512);
  }
  config["type_vocab_size"] = fields.Int("type_vocab_size", 0, 0, kMostSize);
  config["layers"] = Json(layers, Json{{"attention", ReadAttention(checkpoint)}});

  TensorView& tensors = *model.tensors;
  const std::string embeddings = prefix + "embeddings.";
  tensors.Add("embed.tokens.weight", embeddings + "word_embeddings.weight");
  tensors.Add("embed.positions.weight", embeddings + "position_embeddings.weight");
  tensors.Add("embed.types.weight", embeddings + "token_type_embeddings.weight");
  tensors.AddModule("embed.norm", embeddings + "LayerNorm");
  tensors.AddModule("embed.projection", embeddings + "embed_proj");
  const bool shared = fields.Bool("share_att_key", false);
  for (int64_t i = 0; i < layers; ++i) AddLayer(prefix, i, shared, tensors);
  AddConvolution(checkpoint, prefix, model);
  tensors.Ignore("*position_ids");
  return model;
}

void AddLanguageModel(Checkpoint& checkpoint, NativeModel& model) {
  Json& config = model.config;
  TensorView& tensors = *model.tensors;
  config["head"] = "lm";
  const bool legacy = checkpoint.fields().Bool("legacy", true);
  const std::string head = legacy ? "cls.predictions." : "lm_predictions.lm_head.";
  const std::string layer = legacy ? head + "transform." : head;
  AddHeadLayer(config.value("embedding_size", config["hidden_size"]), config["hidden_act"], /*norm=*/true,
               config);
  tensors.AddModule("head_layers.0", layer + "dense");
  tensors.AddModule("head_layers.0.norm", layer + "LayerNorm");
  if (legacy) tensors.Add("lm_head.weight", head + "decoder.weight");
  tensors.Add("lm_head.bias", head + "bias");
  tensors.Ignore("cls.predictions.decoder.bias");  // the same again
}

}  // namespace

absl::StatusOr<NativeModel> ReadDebertaV2Family(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("deberta."), &task = checkpoint.task();
  JsonFields& fields = checkpoint.fields();
  NativeModel model = ReadEncoder(checkpoint, prefix);
  if (task == "MaskedLM") {
    AddLanguageModel(checkpoint, model);
  } else if (task == "SequenceClassification") {
    AddPooledClassifier(checkpoint,
                        {.module = "pooler.dense",
                         .hidden_act = ActivationName(fields, "pooler_hidden_act", "gelu"),
                         .width = Size(fields, "pooler_hidden_size", model.config["hidden_size"])},
                        model);
  } else if (!AddTokenHead(checkpoint, model) && task != "Model") {
    return checkpoint.UnknownTask({"Model", "ForMaskedLM", "ForSequenceClassification",
                                   "ForTokenClassification", "ForQuestionAnswering"});
  }
  return model;
}

}  // namespace heed
