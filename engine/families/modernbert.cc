// "modernbert" (Warner et al. 2024): pre-norm layers with rotary positions and gated feed-forwards, of which
// most see only local_attention / 2 tokens to either side. The first layer's attention has no norm.
// transformers 5 writes each layer's type (layer_types) and each type's rotation (rope_parameters); 4 writes
// global_attn_every_n_layers, global_rope_theta, local_rope_theta.
// All heads begin with head.{dense, norm}:
//   MaskedLM                decoder, tied to the embedding
//   SequenceClassification  classifier, of the first row or the mean of all (classifier_pooling)
//   TokenClassification     classifier;  QuestionAnswering  classifier, of two labels
// "modernbert-decoder" (Weller et al. 2025, Ettin): the same, each row sees those before it; attn.{q_proj,
// k_proj, v_proj} apart, heads that begin with lm_head.{dense, norm}.
#include <algorithm>

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr double kMostTheta = 1e12;

std::string TypeOf(JsonFields& fields, int64_t layer) {
  const Json& types = fields.Raw("layer_types");
  if (types.is_null())
    return layer % Size(fields, "global_attn_every_n_layers", 3) == 0 ? "full_attention"
                                                                      : "sliding_attention";
  const bool given = types.is_array() && layer < std::ssize(types) && types[layer].is_string();
  const std::string type = given ? types[layer].get<std::string>() : "";
  if (type != "full_attention" && type != "sliding_attention")
    fields.Fail(
        Cat("layer_types: the layer ", layer, " is neither \"full_attention\" nor \"sliding_attention\""));
  return type;
}

// The rotation of such a layer; null: it has none.
Json RopeOf(JsonFields& fields, const std::string& type) {
  const bool local = type == "sliding_attention";
  double theta = fields.Number("global_rope_theta", 160000, 1, kMostTheta);
  if (local) theta = fields.Number("local_rope_theta", 10000, 1, kMostTheta);
  const Json& parameters = fields.Raw("rope_parameters");
  if (parameters.is_object() && parameters.contains(type)) {
    const Json& own = parameters[type];
    if (own.is_null()) return own;
    JsonFields rope(own, fields.Name("rope_parameters") + "." + type);
    rope.Choice("rope_type", {"default"});
    theta = rope.Number("rope_theta", theta, 1, kMostTheta);
    fields.Fail(rope.error());
  } else if (!parameters.is_null()) {
    fields.Fail(Cat("rope_parameters: ", Shown(parameters), " has no \"", type, "\""));
  }
  return {{"theta", theta}};
}

Json LayerOf(JsonFields& fields, int64_t i) {
  const std::string type = TypeOf(fields, i);
  Json attention = {{"type", "softmax"}};
  const Json rope = RopeOf(fields, type);
  if (!rope.is_null()) attention["rope"] = rope;
  if (type == "sliding_attention") attention["window"] = Size(fields, "local_attention", 128);
  Json layer = {{"attention", attention}};
  if (i == 0) layer["attention_norm"] = "none";
  return layer;
}

void AddLayer(const std::string& of, const std::string& to, TensorView& tensors) {
  const char* const names[] = {"q", "k", "v"};
  for (const char* part : {".weight", ".bias"}) {
    for (int i = 0; i < 3; ++i)
      tensors.Add(Cat(to, "attention.", names[i], part),
                  ViewedTensor(Cat(of, "attn.Wqkv", part)).PartOfGroups(1, {1, 1, 1}, i));
    const ViewedTensor both(Cat(of, "mlp.Wi", part));
    tensors.Add(Cat(to, "ffn.gate", part), both.PartOfGroups(1, {1, 1}, 0));
    tensors.Add(Cat(to, "ffn.up", part), both.PartOfGroups(1, {1, 1}, 1));
  }
  tensors.AddModule(to + "attention.o", of + "attn.Wo");
  tensors.AddModule(to + "ffn.down", of + "mlp.Wo");
  tensors.AddModule(to + "norm1", of + "attn_norm");
  tensors.AddModule(to + "norm2", of + "mlp_norm");
}

void ReadShape(Checkpoint& checkpoint, Json& config) {
  JsonFields& fields = checkpoint.fields();
  DefaultToken("pad_token_id", 50283, config);
  DefaultToken("bos_token_id", 50281, config);
  DefaultToken("eos_token_id", 50282, config);
  config["hidden_size"] = Size(fields, "hidden_size", 768);
  config["num_attention_heads"] = Size(fields, "num_attention_heads", 12);
  config["intermediate_size"] = Size(fields, "intermediate_size", 1152);
  config["hidden_act"] = GatedName(fields, "hidden_activation", "gelu");
  config["norm"] = "pre";
  config["norm_bias"] = fields.Bool("norm_bias", false);
  config["layer_norm_eps"] = fields.Number("norm_eps", 1e-5, 0, 1);
  config["max_position_embeddings"] = Size(fields, "max_position_embeddings", 8192);
  config["embedding_norm"] = true;
  const int64_t layers = Size(fields, "num_hidden_layers", 22, kMostLayers);
  for (int64_t i = 0; i < layers; ++i) config["layers"].push_back(LayerOf(fields, i));
}

NativeModel ReadEncoder(Checkpoint& checkpoint) {
  const std::string prefix = checkpoint.Prefix("model.");
  NativeModel model{
      .config = BeginConfig(checkpoint, "encoder", Size(checkpoint.fields(), "vocab_size", 50368)),
      .tensors = TensorView()};
  ReadShape(checkpoint, model.config);
  TensorView& tensors = *model.tensors;
  tensors.Add("embed.tokens.weight", prefix + "embeddings.tok_embeddings.weight");
  tensors.AddModule("embed.norm", prefix + "embeddings.norm");
  for (size_t i = 0; i < model.config["layers"].size(); ++i)
    AddLayer(Cat(prefix, "layers.", i, "."), Cat("layers.", i, "."), tensors);
  tensors.AddModule("norm", prefix + "final_norm");
  return model;
}

// How many rows a row of a decoder's local layers sees, itself included. Before transformers 5 config.json's
// local_attention counts, and half of it is seen.
int64_t DecoderWindow(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const int64_t half = std::max<int64_t>(Size(fields, "local_attention", 128) / 2, 1);
  return checkpoint.version() >= 5 ? Size(fields, "sliding_window", half) : half;
}

NativeModel ReadDecoder(Checkpoint& checkpoint) {
  NativeModel model = ReadEncoder(checkpoint);
  const std::string prefix = checkpoint.Prefix("model.");
  model.config["architecture"] = "decoder";
  const int64_t window = DecoderWindow(checkpoint);
  // Before transformers 5 all layers turn by it, whatever local_rope_theta says.
  const double theta = checkpoint.fields().Number("global_rope_theta", 160000, 1, kMostTheta);
  for (size_t i = 0; i < model.config["layers"].size(); ++i) {
    Json& attention = model.config["layers"][i]["attention"];
    if (attention.contains("window")) attention["window"] = window;
    if (checkpoint.version() < 5) attention["rope"]["theta"] = theta;
    for (const char* name : {"q", "k", "v"})
      model.tensors->AddModule(Cat("layers.", i, ".attention.", name),
                               Cat(prefix, "layers.", i, ".attn.", name, "_proj"));
  }
  return model;
}

// What all heads begin with: NAME.{dense (classifier_activation), norm}.
void AddPredictionHead(Checkpoint& checkpoint, const std::string& name, NativeModel& model) {
  AddHeadLayer(model.config["hidden_size"],
               ActivationName(checkpoint.fields(), "classifier_activation", "gelu"), /*norm=*/true,
               model.config);
  model.tensors->AddModule("head_layers.0", name + ".dense");
  model.tensors->AddModule("head_layers.0.norm", name + ".norm");
}

void AddLanguageModel(NativeModel& model) {
  model.config["head"] = "lm";
  model.tensors->AddModule("lm_head", "decoder");
}

}  // namespace

absl::StatusOr<NativeModel> ReadModernBertDecoderFamily(Checkpoint& checkpoint) {
  const std::string& task = checkpoint.task();
  NativeModel model = ReadDecoder(checkpoint);
  if (task == "Model") return model;
  if (task == "CausalLM") {
    AddPredictionHead(checkpoint, "lm_head", model);
    AddLanguageModel(model);
    return model;
  }
  if (task != "SequenceClassification")
    return checkpoint.UnknownTask({"Model", "ForCausalLM", "ForSequenceClassification"});
  AddPredictionHead(checkpoint, "head", model);
  SetLabels(checkpoint, "classification", model.config);
  PoolLastToken(model.config);
  model.tensors->AddModule("classifier", "classifier");
  return model;
}

absl::StatusOr<NativeModel> ReadModernBertFamily(Checkpoint& checkpoint) {
  const std::string& task = checkpoint.task();
  NativeModel model = ReadEncoder(checkpoint);
  Json& config = model.config;
  if (task == "Model") return model;
  AddPredictionHead(checkpoint, "head", model);
  if (task == "MaskedLM") {
    AddLanguageModel(model);
    return model;
  }
  model.tensors->AddModule("classifier", "classifier");
  if (task == "SequenceClassification") {
    SetLabels(checkpoint, "classification", config);
    const std::string pooling = checkpoint.fields().Choice("classifier_pooling", {"cls", "mean"});
    config["pooling"] = pooling == "mean" ? "mean" : "first";
  } else if (task == "TokenClassification") {
    SetLabels(checkpoint, "token_classification", config);
  } else if (task == "QuestionAnswering") {
    SetSpanLabels(config);
  } else {
    return checkpoint.UnknownTask({"Model", "ForMaskedLM", "ForSequenceClassification",
                                   "ForTokenClassification", "ForQuestionAnswering"});
  }
  return model;
}

}  // namespace heed
