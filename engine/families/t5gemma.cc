// "t5gemma" (Zhang et al. 2025): an encoder-decoder of Gemma 2's layers, with tables of tokens of their own;
// the decoder's cross-attention stands between its attention and its feed-forward, with norms before and
// after. Each side's keys stand under its name in config.json. Names: model.{encoder, decoder}.{embed_tokens,
// norm}, layers.I.{self_attn, cross_attn, mlp, pre_self_attn_layernorm, post_self_attn_layernorm, ...};
// without "model." in a base model.
//   ConditionalGeneration  lm_head.out_proj, or tied to the decoder's table;  EncoderModel
#include <algorithm>
#include <cmath>

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr int64_t kMostWindow = int64_t{1} << 28;
constexpr double kMostTheta = 1e12;

// One side's own keys.
struct Side {
  std::string name;  // "encoder"
  JsonFields fields;
  const Json& config;

  int64_t size(std::string_view key, int64_t fallback, int64_t most = kMostSize) {
    return Size(fields, key, fallback, most);
  }
  // Null where the file says so; `fallback` where it says nothing.
  Json Cap(const char* key, double fallback) {
    if (!fields.Has(key) && config.contains(key)) return nullptr;
    return fields.Number(key, fallback, 1e-3, 1e6);
  }
};

const Json& ConfigOf(Checkpoint& checkpoint, const char* side) {
  static const auto& nothing = *new Json(Json::object());
  const Json& config = checkpoint.fields().Raw(side);
  if (config.is_object()) return config;
  checkpoint.fields().Fail(Cat(side, " is missing, or no object"));
  return nothing;
}

Json RopeOf(Side& side) {
  const double theta = side.fields.Number("rope_theta", 10000, 1, kMostTheta);
  const Json& parameters = side.fields.Raw("rope_parameters");
  if (!side.fields.Raw("rope_scaling").is_null()) side.fields.Fail("rope_scaling is not served");
  if (!parameters.is_object()) return {{"theta", theta}};
  JsonFields rope(parameters, side.fields.Name("rope_parameters"));
  rope.Choice("rope_type", {"default"});
  const Json native = {{"theta", rope.Number("rope_theta", theta, 1, kMostTheta)}};
  side.fields.Fail(rope.error());
  return native;
}

bool IsLocal(Side& side, int64_t layer) {
  const Json& types = side.fields.Raw("layer_types");
  if (types.is_null()) return layer % 2 == 0;
  const bool given = types.is_array() && layer < std::ssize(types) && types[layer].is_string();
  const std::string type = given ? types[layer].get<std::string>() : "";
  if (type != "full_attention" && type != "sliding_attention")
    side.fields.Fail(
        Cat("layer_types: the layer ", layer, " is neither \"full_attention\" nor \"sliding_attention\""));
  return type == "sliding_attention";
}

// An encoder's row sees so many to either side as config.json says, itself counted before transformers 5; a
// native window is of both sides together.
int64_t NativeWindow(Checkpoint& checkpoint, Side& side) {
  const int64_t window = side.size("sliding_window", 4096, kMostWindow);
  if (side.name == "decoder") return window;
  return std::max<int64_t>(2 * (checkpoint.version() < 5 ? window - 1 : window), 1);
}

Json AttentionOf(Side& side) {
  Json attention = {{"type", "softmax"},
                    {"num_heads", side.size("num_attention_heads", 8)},
                    {"num_key_value_heads", side.size("num_key_value_heads", 4)},
                    {"head_dim", side.size("head_dim", 256)},
                    {"scale", 1 / std::sqrt(side.fields.Number("query_pre_attn_scalar", 256, 1e-6, 1e6))}};
  const Json cap = side.Cap("attn_logit_softcapping", 50);
  if (!cap.is_null()) attention["soft_cap"] = cap;
  return attention;
}

Json LayersOf(Checkpoint& checkpoint, Side& side) {
  const Json cross = AttentionOf(side);
  Json turned = cross, layers = Json::array();
  turned["rope"] = RopeOf(side);
  const int64_t count = side.size("num_hidden_layers", 26, kMostLayers);
  for (int64_t i = 0; i < count; ++i) {
    Json layer = {{"attention", turned},
                  {"ffn", {{"intermediate_size", side.size("intermediate_size", 9216)}}}};
    if (IsLocal(side, i)) layer["attention"]["window"] = NativeWindow(checkpoint, side);
    if (side.name == "decoder") layer["cross_attention"] = cross;
    layers.push_back(std::move(layer));
  }
  return layers;
}

void AddAttention(const std::string& of, const std::string& to, TensorView& tensors) {
  for (const char* name : {"q", "k", "v", "o"})
    tensors.AddModule(Cat(to, ".", name), Cat(of, ".", name, "_proj"));
}

void AddSide(const std::string& of, const std::string& to, size_t layers, TensorView& tensors) {
  tensors.Add(to + "embed.tokens.weight", of + "embed_tokens.weight");
  tensors.AddModule(to + "norm", of + "norm");
  for (size_t i = 0; i < layers; ++i) {
    const std::string layer = Cat(of, "layers.", i, "."), native = Cat(to, "layers.", i, ".");
    AddAttention(layer + "self_attn", native + "attention", tensors);
    tensors.AddModule(native + "norm1", layer + "pre_self_attn_layernorm");
    tensors.AddModule(native + "norm1_post", layer + "post_self_attn_layernorm");
    AddAttention(layer + "cross_attn", native + "cross_attention", tensors);
    tensors.AddModule(native + "norm_cross", layer + "pre_cross_attn_layernorm");
    tensors.AddModule(native + "norm_cross_post", layer + "post_cross_attn_layernorm");
    for (const char* name : {"gate", "up", "down"})
      tensors.AddModule(Cat(native, "ffn.", name), Cat(layer, "mlp.", name, "_proj"));
    tensors.AddModule(native + "norm2", layer + "pre_feedforward_layernorm");
    tensors.AddModule(native + "norm2_post", layer + "post_feedforward_layernorm");
  }
}

void ReadShape(Side& side, Json& config) {
  const int64_t width = side.size("hidden_size", 2304);
  config["hidden_size"] = width;
  config["num_attention_heads"] = side.size("num_attention_heads", 8);
  config["hidden_act"] = GatedName(side.fields, "hidden_activation", "gelu_pytorch_tanh");
  config["norm"] = "sandwich";
  config["norm_type"] = "rms";
  config["norm_offset"] = 1;
  config["layer_norm_eps"] = side.fields.Number("rms_norm_eps", 1e-6, 0, 1);
  config["embedding_scale"] = std::sqrt(static_cast<double>(width));
}

// What both sides have must be one.
void CheckAlike(Checkpoint& checkpoint, const Json& encoder, const Json& decoder) {
  for (const char* key : {"hidden_act", "layer_norm_eps"}) {
    if (encoder[key] != decoder[key])
      checkpoint.fields().Fail(Cat("decoder: ", key, " ", Shown(decoder[key]), ", the encoder has ",
                                   Shown(encoder[key]), "; sides that differ in it are not served"));
  }
}

void AddHead(Checkpoint& checkpoint, Side& decoder, NativeModel& model) {
  Json& config = model.config;
  const std::string stored = "lm_head.out_proj.weight";
  const bool tied = checkpoint.fields().Bool("tie_word_embeddings", true);
  config["head"] = "lm";
  if (!tied && !checkpoint.Has(stored))
    checkpoint.fields().Fail(Cat("tie_word_embeddings: false, and the file has no tensor \"", stored, "\""));
  if (tied && checkpoint.version() < 5) {
    model.tensors->Ignore(stored);
  } else {
    model.tensors->Add("lm_head.weight", stored);
  }
  const Json cap = decoder.Cap("final_logit_softcapping", 30);
  if (!cap.is_null()) config["logits_soft_cap"] = cap;
}

}  // namespace

absl::StatusOr<NativeModel> ReadT5GemmaFamily(Checkpoint& checkpoint) {
  const bool alone = checkpoint.task() == "EncoderModel";
  if (!alone && checkpoint.task() != "ConditionalGeneration")
    return checkpoint.UnknownTask({"EncoderModel", "ForConditionalGeneration"});
  const auto side = [&](const char* name) {
    const Json& config = ConfigOf(checkpoint, name);
    return Side{name, JsonFields(config, checkpoint.fields().Name(name)), config};
  };
  Side encoder = side("encoder");
  const int64_t vocab_size = Size(checkpoint.fields(), "vocab_size", encoder.size("vocab_size", 256000));
  NativeModel model{.config = BeginConfig(checkpoint, alone ? "encoder" : "encoder-decoder", vocab_size),
                    .tensors = TensorView()};
  const std::string prefix = checkpoint.Prefix("model.");
  ReadShape(encoder, model.config);
  model.config["layers"] = LayersOf(checkpoint, encoder);
  AddSide(prefix + "encoder.", alone ? "" : "encoder.", model.config["layers"].size(), *model.tensors);
  if (!alone) {
    Side decoder = side("decoder");
    Json shape;
    ReadShape(decoder, shape);
    CheckAlike(checkpoint, model.config, shape);
    model.config["decoder_hidden_size"] = shape["hidden_size"];
    model.config["decoder_embedding_scale"] = shape["embedding_scale"];
    model.config["decoder_layers"] = LayersOf(checkpoint, decoder);
    AddSide(prefix + "decoder.", "decoder.", model.config["decoder_layers"].size(), *model.tensors);
    DefaultToken("decoder_start_token_id", 2, model.config);
    AddHead(checkpoint, decoder, model);
    checkpoint.fields().Fail(decoder.fields.error());
  }
  checkpoint.fields().Fail(encoder.fields.error());
  return model;
}

}  // namespace heed
