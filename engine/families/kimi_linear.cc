// "kimi_linear" (Kimi Linear, Kimi team 2025): Llama's norms around layers of Kimi delta attention,
// self_attn.{q_proj, k_proj, v_proj, q_conv1d, k_conv1d, v_conv1d, f_a_proj, f_b_proj, g_a_proj, g_b_proj,
// b_proj, A_log, dt_bias, o_norm, o_proj}, and some of latent attention that is not turned,
// self_attn.{q_proj, kv_a_proj_with_mqa, kv_a_layernorm, kv_b_proj, o_proj}; linear_attn_config of its first
// files, or layer_types, says which. Experts, chosen by sigmoids and a correction, in all layers but the
// first: block_sparse_moe.{gate, experts.E.{w1, w3, w2}, shared_experts}. "bailing_hybrid" (Ling 2.5, Ant
// Group 2026): the same under attention.*, f_proj and g_proj without a rank, what fades bounded by
// kda_lower_bound; latent attention turns pairs of neighbours, and each head's result is multiplied by a
// sigmoid, g_proj; mlp.{gate, experts, shared_experts}.
#include <algorithm>
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

constexpr double kLeast = 1e-6, kMost = 1e6;

// Of the delta layers: the first files have an object of them.
struct DeltaSizes {
  int64_t heads = 32, dim = 128, kernel = 4;
};

DeltaSizes ReadDeltaSizes(JsonFields& fields) {
  const Json& told = fields.Raw("linear_attn_config");
  if (!told.is_object()) {
    return {Size(fields, "linear_num_heads", 32), Size(fields, "linear_head_dim", 128),
            Size(fields, "linear_conv_kernel_dim", 4, 64)};
  }
  JsonFields own(told, fields.Name("linear_attn_config"));
  const DeltaSizes sizes{Size(own, "num_heads", 32), Size(own, "head_dim", 128),
                         Size(own, "short_conv_kernel_size", 4, 64)};
  fields.Fail(own.error());
  return sizes;
}

// Counted from 1.
bool IsListed(const Json& list, int64_t layer) {
  return list.is_array() && std::ranges::find(list, Json(layer + 1)) != list.end();
}

// Where a layer's attention is called `module`.
void SetDelta(int64_t i, const DeltaSizes& sizes, const std::string& module, Decoder& decoder) {
  const std::string to = Cat("layers.", i, ".attention."),
                    of = Cat(decoder.layer_prefix, i, ".", module, ".");
  decoder.attention(i) = {{"type", "kimi_delta"},   {"num_heads", sizes.heads},
                          {"key_dim", sizes.dim},   {"value_dim", sizes.dim},
                          {"kernel", sizes.kernel}, {"norm_eps", decoder.config()["layer_norm_eps"]}};
  TensorView& tensors = decoder.tensors();
  std::vector<ViewedTensor> kernels;
  for (const char* name : {"q", "k", "v"})
    kernels.push_back(ViewedTensor(Cat(of, name, "_conv1d.weight")).Shaped({-1, sizes.kernel}));
  tensors.Add(to + "convolution.weight", ViewedTensor::Joined(kernels));
  tensors.AddModule(to + "b", of + "b_proj");
  tensors.Add(to + "a_log", ViewedTensor(of + "A_log").Shaped({-1}));
  tensors.Add(to + "dt_bias", ViewedTensor(of + "dt_bias").Shaped({-1}));
  tensors.AddModule(to + "norm", of + "o_norm");
}

void SetRank(int64_t i, int64_t rank, Decoder& decoder) {
  const std::string to = Cat("layers.", i, ".attention."), of = Cat(decoder.layer_prefix, i, ".self_attn.");
  decoder.attention(i)["rank"] = rank;
  decoder.tensors().AddModule(to + "f_latent", of + "f_a_proj");
  decoder.tensors().AddModule(to + "f", of + "f_b_proj");
  decoder.tensors().AddModule(to + "gate_latent", of + "g_a_proj");
  decoder.tensors().AddModule(to + "gate", of + "g_b_proj");
}

void SetLatent(Checkpoint& checkpoint, int64_t i, const std::string& module, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("q_lora_rank", nullptr);
  const int64_t latent = Size(fields, "kv_lora_rank", 512);
  const std::string to = Cat("layers.", i, ".attention."),
                    of = Cat(decoder.layer_prefix, i, ".", module, ".");
  decoder.attention(i) = {{"type", "latent"},
                          {"latent_dim", latent},
                          {"rope_dim", Size(fields, "qk_rope_head_dim", 64)},
                          {"key_dim", Size(fields, "qk_nope_head_dim", 128)},
                          {"value_dim", Size(fields, "v_head_dim", 128)}};
  TensorView& tensors = decoder.tensors();
  for (const char* kind : {".weight", ".bias"}) {
    const ViewedTensor fused(Cat(of, "kv_a_proj_with_mqa", kind));
    tensors.Add(Cat(to, "kv", kind), ViewedTensor::Joined({fused.RowsFrom(latent), fused.Rows(0, latent)}));
  }
  tensors.AddModule(to + "kv_norm", of + "kv_a_layernorm");
  tensors.AddModule(to + "expand", of + "kv_b_proj");
}

Mixture MixtureOf(JsonFields& fields) {
  const int64_t hidden = Size(fields, "moe_intermediate_size", 1024);
  return {.options = {{"experts", Size(fields, "num_experts", 256)},
                      {"top_k", Size(fields, "num_experts_per_token", 8)},
                      {"intermediate_size", hidden},
                      {"score", "sigmoid"},
                      {"normalize", fields.Bool("moe_renormalize", true)},
                      {"scale", fields.Number("routed_scaling_factor", 1, kLeast, kMost)},
                      {"groups", Size(fields, "num_expert_group", 1)},
                      {"top_groups", Size(fields, "topk_group", 1)},
                      {"shared_size", hidden * Size(fields, "num_shared_experts", 1)}},
          .module = "block_sparse_moe",
          .correction = "gate.e_score_correction_bias",
          .gate = "w1",
          .up = "w3",
          .down = "w2",
          .shared = "shared_experts"};
}

// The expert for all rows, whose products are not called as the others' are; or the only feed-forward, which
// transformers 5 writes where others have experts.
void AddPlainProducts(Checkpoint& checkpoint, int64_t i, bool sparse, Decoder& decoder) {
  const std::string to = Cat("layers.", i, ".ffn."), of = Cat(decoder.layer_prefix, i, "."),
                    within = of + "block_sparse_moe.";
  const bool there = sparse || checkpoint.Has(within + "gate_proj.weight");
  const std::string module = !there ? of + "mlp." : sparse ? within + "shared_experts." : within;
  for (const char* name : {"gate", "up", "down"})
    decoder.tensors().AddModule(Cat(to, sparse ? "shared." : "", name), Cat(module, name, "_proj"));
}

}  // namespace

absl::StatusOr<NativeModel> ReadKimiLinearFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 163840,
                                                  .hidden_size = 2304,
                                                  .intermediate_size = 9216,
                                                  .num_hidden_layers = 27,
                                                  .tokens = {.bos = 163584, .eos = 163586},
                                                  .eps = 1e-5});
  JsonFields& fields = checkpoint.fields();
  const DeltaSizes sizes = ReadDeltaSizes(fields);
  const Json& told = fields.Raw("linear_attn_config");
  const Json full = told.is_object() ? told.value("full_attn_layers", Json()) : Json();
  const std::vector<bool> linear =
      LinearLayers(checkpoint, decoder.layers, [&](int64_t i) { return !IsListed(full, i); });
  const Mixture mixture = MixtureOf(fields);
  const std::vector<bool> sparse = LayersWithExperts(checkpoint, decoder.layers, 1);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (linear[i]) {
      SetDelta(i, sizes, "self_attn", decoder);
      SetRank(i, sizes.dim, decoder);
    } else {
      SetLatent(checkpoint, i, "self_attn", decoder);
    }
    if (sparse[i]) SetMixture(checkpoint, i, mixture, decoder);
    AddPlainProducts(checkpoint, i, sparse[i], decoder);
  }
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadBailingHybridFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 157184,
                                                  .intermediate_size = 9216,
                                                  .tokens = {.bos = 1, .eos = 2},
                                                  .rope = {.theta = 6e6, .interleaved = true}});
  JsonFields& fields = checkpoint.fields();
  const DeltaSizes sizes = ReadDeltaSizes(fields);
  const double bound = fields.Number("kda_lower_bound", -5, -1e3, -1e-3);
  const bool bounded = fields.Bool("kda_safe_gate", true);
  const int64_t group = Size(fields, "layer_group_size", 4);
  const std::vector<bool> linear =
      LinearLayers(checkpoint, decoder.layers, [&](int64_t i) { return (i + 1) % group != 0; });
  Json rope = decoder.attention(0).value("rope", Json());
  if (rope.is_object()) rope.erase("dims");
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (linear[i]) {
      SetDelta(i, sizes, "attention", decoder);
      if (bounded) decoder.attention(i)["lower_bound"] = bound;
    } else {
      SetLatent(checkpoint, i, "attention", decoder);
      if (!rope.is_null()) decoder.attention(i)["rope"] = rope;
      decoder.attention(i)["output_gate"] = "head";
    }
  }
  for (const char* name : {"q", "k", "v", "f"})
    decoder.AddModules(Cat("attention.", name), Cat("attention.", name, "_proj"));
  decoder.AddModules("attention.gate", "attention.g_proj");
  decoder.AddModules("attention.o", "attention.dense");
  decoder.tensors().Add("embed.tokens.weight", checkpoint.Prefix("model.") + "word_embeddings.weight");
  Mixture mixture = MixtureOf(fields);
  mixture.module = "mlp";
  mixture.correction = "gate.expert_bias";
  mixture.gate = "gate_proj", mixture.up = "up_proj", mixture.down = "down_proj";
  mixture.options["strict_groups"] = true;
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 1), mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
