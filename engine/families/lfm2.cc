// "lfm2" (Liquid AI 2025): pre-norm layers of short convolutions, some of attention with normed queries and
// keys, each followed by SwiGLU. Names: model.{embed_tokens, layers.I.{operator_norm, conv.{in_proj, conv,
// out_proj} or self_attn.{q_proj, k_proj, v_proj, out_proj, q_layernorm, k_layernorm}, ffn_norm,
// feed_forward.{w1, w3, w2}}, embedding_norm}, without "model." in a base model.
// "lfm2_moe" (2025): experts in all layers but the first num_dense_layers, chosen by sigmoids and, with
// use_expert_bias, a correction.
//   CausalLM  tied to the embedding, or lm_head
//   Model     the rows as they are
#include "engine/families/lfm2.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/decoder.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"
#include "engine/families/rope.h"

namespace heed {
namespace {

// Of each layer, whether it is a convolution.
std::vector<bool> ReadConvolutions(JsonFields& fields, int64_t layers) {
  const Json &types = fields.Raw("layer_types"), &full = fields.Raw("full_attn_idxs");
  std::vector<bool> convolutions(layers);
  if (types.is_null()) {
    for (int64_t i = 0; i < layers; ++i)
      convolutions[i] = full.is_array() && std::ranges::find(full, Json(i)) == full.end();
    return convolutions;
  }
  if (!types.is_array() || std::ssize(types) != layers) {
    fields.Fail(Cat("layer_types: ", Shown(types), " is no list of ", layers, " layers"));
    return convolutions;
  }
  for (int64_t i = 0; i < layers; ++i) {
    convolutions[i] = types[i] == "conv";
    if (types[i] != "conv" && types[i] != "full_attention")
      fields.Fail(Cat("layer_types: ", Shown(types[i]), " is neither \"conv\" nor \"full_attention\""));
  }
  return convolutions;
}

// Of what is told, two thirds, times a factor, up to a multiple, each step rounded down.
int64_t ReadHidden(JsonFields& fields) {
  const int64_t told = Size(fields, "block_ff_dim", Size(fields, "intermediate_size", 12288)),
                unit = Size(fields, "block_multiple_of", 256);
  const double factor = fields.Number("block_ffn_dim_multiplier", 1, 0, 64);
  if (!fields.Bool("block_auto_adjust_ff_dim", true)) return told;
  const auto hidden = static_cast<int64_t>(factor * static_cast<double>(2 * told / 3));
  return std::max<int64_t>(1, (hidden + unit - 1) / unit) * unit;
}

void AddAttention(const std::string& to, const std::string& of, TensorView& tensors) {
  for (const char* name : {"q", "k", "v"}) tensors.AddModule(to + name, Cat(of, name, "_proj"));
  tensors.AddModule(to + "o", of + "out_proj");
  tensors.AddModule(to + "q_norm", of + "q_layernorm");
  tensors.AddModule(to + "k_norm", of + "k_layernorm");
}

// All layers with attention.
Decoder ReadLayers(Checkpoint& checkpoint, int64_t intermediate_size) {
  Decoder decoder = ReadLfm2Frame(checkpoint, intermediate_size);
  JsonFields& fields = checkpoint.fields();
  decoder.head_dim = decoder.width / decoder.heads;
  decoder.SetLayers(
      {{"type", "softmax"},
       {"num_key_value_heads", decoder.key_value_heads},
       {"rope", ReadRope(checkpoint, {.theta = fields.Number("theta", 1e6, 1, 1e12)}, decoder.head_dim)},
       {"qk_norm", {{"type", "rms"}, {"over", "head"}}}});
  return decoder;
}

void SetConvolutions(Checkpoint& checkpoint, Decoder& decoder) {
  const int64_t kernel = Size(checkpoint.fields(), "conv_L_cache", 3, 64);
  const std::vector<bool> convolutions = ReadConvolutions(checkpoint.fields(), decoder.layers);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    const std::string of = Cat(decoder.layer_prefix, i, "."), to = Cat("layers.", i, ".attention.");
    if (convolutions[i]) {
      decoder.attention(i) = {{"type", "short_convolution"}, {"kernel", kernel}};
      AddShortConvolution(to, of + "conv.", kernel, decoder.tensors());
    } else {
      AddAttention(to, of + "self_attn.", decoder.tensors());
    }
  }
}

}  // namespace

Decoder ReadLfm2Frame(Checkpoint& checkpoint, int64_t intermediate_size) {
  JsonFields& fields = checkpoint.fields();
  const std::string prefix = checkpoint.Prefix("model.");
  Decoder decoder = BeginDecoder(checkpoint, Size(fields, "vocab_size", 65536),
                                 {.bos = 1, .eos = 2, .pad = 0}, prefix + "layers.");
  decoder.width = Size(fields, "hidden_size", 2560);
  decoder.layers = Size(fields, "num_hidden_layers", 32, kMostLayers);
  decoder.heads = Size(fields, "num_attention_heads", 32);
  decoder.key_value_heads = Size(fields, "num_key_value_heads", 8);
  Json& config = decoder.config();
  config["intermediate_size"] = intermediate_size;
  config["hidden_act"] = "swiglu";
  config["norm_type"] = "rms";
  config["layer_norm_eps"] = fields.Number("norm_eps", 1e-5, 0, 1);
  decoder.tensors().Add("embed.tokens.weight", prefix + "embed_tokens.weight");
  decoder.tensors().AddModule("norm", prefix + "embedding_norm");
  decoder.AddModules("norm1", "operator_norm");
  decoder.AddModules("norm2", "ffn_norm");
  decoder.AddModules("ffn.gate", "feed_forward.w1");
  decoder.AddModules("ffn.up", "feed_forward.w3");
  decoder.AddModules("ffn.down", "feed_forward.w2");
  return decoder;
}

void AddShortConvolution(const std::string& to, const std::string& of, int64_t kernel, TensorView& tensors) {
  tensors.AddModule(to + "in", of + "in_proj");
  tensors.Add(to + "convolution.weight", ViewedTensor(of + "conv.weight").Shaped({-1, kernel}));
  tensors.Add(to + "convolution.bias", of + "conv.bias");
  tensors.AddModule(to + "o", of + "out_proj");
}

absl::StatusOr<NativeModel> ReadLfm2Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLayers(checkpoint, ReadHidden(checkpoint.fields()));
  SetConvolutions(checkpoint, decoder);
  return WithHead(checkpoint, std::move(decoder), {.tied = checkpoint.fields().Bool("tie_embedding", true)});
}

absl::StatusOr<NativeModel> ReadLfm2MoeFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  Decoder decoder = ReadLayers(checkpoint, Size(fields, "intermediate_size", 7168));
  SetConvolutions(checkpoint, decoder);
  const Mixture mixture{.options = {{"experts", Size(fields, "num_experts", 32)},
                                    {"top_k", Size(fields, "num_experts_per_tok", 4)},
                                    {"intermediate_size", Size(fields, "moe_intermediate_size", 1792)},
                                    {"score", "sigmoid"},
                                    {"normalize", fields.Bool("norm_topk_prob", true)},
                                    {"scale", fields.Number("routed_scaling_factor", 1, 1e-6, 1e6)}},
                        .module = "feed_forward",
                        .correction = fields.Bool("use_expert_bias", true) ? "expert_bias" : "",
                        .gate = "w1",
                        .up = "w3",
                        .down = "w2"};
  const int64_t dense = fields.Int("num_dense_layers", 2, 0, kMostLayers);
  for (int64_t i = dense; i < decoder.layers; ++i) SetMixture(checkpoint, i, mixture, decoder);
  return WithHead(checkpoint, std::move(decoder), {.tied = checkpoint.fields().Bool("tie_embedding", true)});
}

}  // namespace heed
