// "minimax" (MiniMax-01, Li et al. 2025): layers of lightning attention, among them some of softmax attention
// that is turned; experts in every layer. The stream is h = norm(x) itself: a sublayer makes alpha h + beta
// f(h), so that these are post-norm layers behind a norm of the embedding. What a sublayer reads is alpha h,
// from the norm's weights; its own weights are the less. Of a linear layer self_attn.{qkv_proj (head by head
// q, k, v), output_gate, norm, out_proj}; of the experts block_sparse_moe.{gate, experts.E.{w1, w3, w2}}.
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/gated_delta.h"
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

struct Factors {
  double alpha = 1, beta = 1;
};

Factors ReadFactors(JsonFields& fields, const std::string& kind) {
  return {.alpha = fields.Number(kind + "_alpha_factor", 1, 1e-3, 1e3),
          .beta = fields.Number(kind + "_beta_factor", 1, 1e-3, 1e3)};
}

// Of what the view has by this name.
void Scale(const std::string& name, double factor, TensorView& tensors) {
  const ViewedTensor* tensor = tensors.Find(name);
  if (tensor != nullptr && factor != 1) tensors.Add(name, tensor->Times(static_cast<float>(factor)));
}

void ScaleAttention(int64_t i, const Factors& factors, TensorView& tensors) {
  const std::string of = Cat("layers.", i, ".attention.");
  for (const char* name : {"q", "k", "v", "gate"}) Scale(of + name + ".weight", 1 / factors.alpha, tensors);
  Scale(of + "o.weight", factors.beta, tensors);
}

void ScaleExperts(int64_t i, int64_t experts, const Factors& factors, TensorView& tensors) {
  const std::string of = Cat("layers.", i, ".ffn.");
  Scale(of + "router.weight", 1 / factors.alpha, tensors);
  for (int64_t e = 0; e < experts; ++e) {
    const std::string expert = Cat(of, "experts.", e, ".");
    Scale(expert + "gate.weight", 1 / factors.alpha, tensors);
    Scale(expert + "up.weight", 1 / factors.alpha, tensors);
    Scale(expert + "down.weight", factors.beta, tensors);
  }
}

void SetLightning(int64_t i, Decoder& decoder) {
  const std::string of = Cat(decoder.layer_prefix, i, ".self_attn."), to = Cat("layers.", i, ".attention.");
  const auto layer = static_cast<double>(i), last = static_cast<double>(decoder.layers - 1);
  decoder.attention(i) = {{"type", "lightning"},
                          {"head_dim", decoder.head_dim},
                          {"slope_factor", 1 - layer / (last + 1e-5) + 1e-5}};
  TensorView& tensors = decoder.tensors();
  constexpr const char* kParts[] = {"q", "k", "v"};
  for (int part = 0; part < 3; ++part) {
    tensors.Add(Cat(to, kParts[part], ".weight"),
                ViewedTensor(of + "qkv_proj.weight").PartOfGroups(decoder.heads, {1, 1, 1}, part));
  }
  tensors.AddModule(to + "gate", of + "output_gate");
  tensors.AddModule(to + "norm", of + "norm");
  tensors.AddModule(to + "o", of + "out_proj");
}

// A norm before a sublayer is one behind that before it.
void SetNorms(const std::vector<Factors>& attention, const Factors& experts, Decoder& decoder) {
  decoder.config()["norm"] = "post";
  decoder.config()["embedding_norm"] = true;
  TensorView& tensors = decoder.tensors();
  const ViewedTensor last = *tensors.Find("norm.weight");
  const auto before = [&](int64_t i) {
    return ViewedTensor(Cat(decoder.layer_prefix, i, ".input_layernorm.weight"));
  };
  tensors.Add("embed.norm.weight", before(0));
  Scale("embed.norm.weight", attention[0].alpha, tensors);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    const std::string of = Cat("layers.", i, ".");
    const bool more = i + 1 < decoder.layers;
    tensors.Add(of + "norm1.weight", Cat(decoder.layer_prefix, i, ".post_attention_layernorm.weight"));
    tensors.Add(of + "norm2.weight", more ? before(i + 1) : last);
    Scale(of + "norm1.weight", experts.alpha, tensors);
    if (more) Scale(of + "norm2.weight", attention[i + 1].alpha, tensors);
  }
  tensors.Remove("norm.weight");
}

}  // namespace

absl::StatusOr<NativeModel> ReadMinimaxFamily(Checkpoint& checkpoint) {
  checkpoint.Require("sliding_window", nullptr);
  Decoder decoder = ReadLlamaDecoder(
      checkpoint,
      {.intermediate_size = 14336, .num_key_value_heads = 8, .eps = 1e-5, .rope = {.theta = 1e6}});
  JsonFields& fields = checkpoint.fields();
  const Factors full = ReadFactors(fields, "full_attn"), linear = ReadFactors(fields, "linear_attn"),
                mlp = ReadFactors(fields, "mlp");
  const bool renamed = checkpoint.Has(decoder.layer_prefix + "0.mlp.gate.weight");
  const int64_t experts = Size(fields, "num_local_experts", 8);
  const Mixture mixture{.options = {{"experts", experts},
                                    {"top_k", Size(fields, "num_experts_per_tok", 2)},
                                    {"normalize", true}},
                        .module = renamed ? "mlp" : "block_sparse_moe",
                        .gate = "w1",
                        .up = "w3",
                        .down = "w2"};
  const std::vector<bool> linear_layers =
      LinearLayers(checkpoint, decoder.layers, [](int64_t i) { return i % 2 == 1; });
  std::vector<Factors> attention;
  for (int64_t i = 0; i < decoder.layers; ++i) {
    attention.push_back(linear_layers[i] ? linear : full);
    if (linear_layers[i]) SetLightning(i, decoder);
    SetMixture(checkpoint, i, mixture, decoder);
    ScaleAttention(i, attention[i], decoder.tensors());
    ScaleExperts(i, experts, mlp, decoder.tensors());
  }
  SetNorms(attention, mlp, decoder);
  for (const char* constant : {"slope_rate", "query_decay", "key_decay", "diagonal_decay"})
    decoder.tensors().Ignore(Cat("*.self_attn.", constant));
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
