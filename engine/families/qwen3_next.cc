// "qwen3_next" (Qwen team 2025): layers of the gated delta rule, every fourth (full_attention_interval, or
// by layer_types) of attention whose results are gated, norms stored less one, a quarter of a head turned;
// every decoder_sparse_step-th layer has experts and an expert for all rows. Of a delta layer
// linear_attn.{in_proj_qkvz, in_proj_ba, conv1d, A_log, dt_bias, norm, out_proj}: in_proj_qkvz has, key head
// by key head, q, k, v and z of its heads, in_proj_ba b and a. Of attention self_attn.q_proj has, head by
// head, q and the gate.
// "qwen3_5_text" (2026): the same with in_proj_{qkv, z, b, a} apart, and no experts; "qwen3_5_moe_text" with
// experts in every layer.
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

// Rows of a module, group by group in parts of these sizes, and the products that they are.
struct Parts {
  int64_t groups = 1;
  std::vector<int64_t> sizes;
  std::vector<std::string> products;
};

void AddParts(const std::string& to, const std::string& module, const Parts& parts, TensorView& tensors) {
  for (int i = 0; i < std::ssize(parts.products); ++i) {
    tensors.Add(Cat(to, parts.products[i], ".weight"),
                ViewedTensor(module + ".weight").PartOfGroups(parts.groups, parts.sizes, i));
  }
}

void AddDelta(int64_t i, const DeltaHeads& heads, bool fused, Decoder& decoder) {
  const std::string of = Cat(decoder.layer_prefix, i, ".linear_attn."), to = Cat("layers.", i, ".attention.");
  TensorView& tensors = decoder.tensors();
  decoder.attention(i) = DeltaAttention(heads);
  if (fused) {
    const int64_t values = heads.shared() * heads.value_dim;
    const Parts qkvz{.groups = heads.key_heads,
                     .sizes = {heads.key_dim, heads.key_dim, values, values},
                     .products = {"q", "k", "v", "gate"}},
        ba{.groups = heads.key_heads, .sizes = {1, 1}, .products = {"b", "a"}};
    AddParts(to, of + "in_proj_qkvz", qkvz, tensors);
    AddParts(to, of + "in_proj_ba", ba, tensors);
  } else {
    const Parts qkv{.sizes = {heads.keys(), heads.keys(), heads.values()}, .products = {"q", "k", "v"}};
    AddParts(to, of + "in_proj_qkv", qkv, tensors);
    tensors.AddModule(to + "gate", of + "in_proj_z");
    tensors.AddModule(to + "b", of + "in_proj_b");
    tensors.AddModule(to + "a", of + "in_proj_a");
  }
  tensors.Add(to + "convolution.weight", ViewedTensor(of + "conv1d.weight").Shaped({-1, heads.kernel}));
  tensors.Add(to + "a_log", of + "A_log");
  tensors.Add(to + "dt_bias", of + "dt_bias");
  tensors.AddModule(to + "norm", of + "norm");
  tensors.AddModule(to + "o", of + "out_proj");
}

// The attention layers' own norm and gate, and the layers that have the delta rule in their place.
void SetHybrid(Checkpoint& checkpoint, bool fused, Decoder& decoder) {
  decoder.config()["norm_offset"] = 1;
  decoder.tensors().Ignore("mtp.*");  // guesses of tokens further ahead
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  decoder.SetAttention("output_gate", true);
  for (const int part : {0, 1}) {
    decoder.AddModules(
        part == 0 ? "attention.q" : "attention.gate", "self_attn.q_proj",
        [&](const ViewedTensor& both) { return both.PartOfGroups(decoder.heads, {1, 1}, part); });
  }
  const DeltaHeads heads = ReadDeltaHeads(checkpoint.fields(), {});
  const Json eps = decoder.config()["layer_norm_eps"];
  const int64_t interval = checkpoint.fields().Int("full_attention_interval", 4, 1, kMostLayers);
  const std::vector<bool> linear =
      LinearLayers(checkpoint, decoder.layers, [&](int64_t i) { return (i + 1) % interval != 0; });
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!linear[i]) continue;
    AddDelta(i, heads, fused, decoder);
    decoder.attention(i)["norm_eps"] = eps;
  }
}

Mixture ReadMixture(JsonFields& fields, int64_t experts, int64_t chosen) {
  const char* key = fields.Has("num_local_experts") ? "num_local_experts" : "num_experts";
  return {.options = {{"experts", Size(fields, key, experts)},
                      {"top_k", Size(fields, "num_experts_per_tok", chosen)},
                      {"intermediate_size", Size(fields, "moe_intermediate_size", 512)},
                      {"normalize", fields.Bool("norm_topk_prob", true)},
                      {"shared_size", Size(fields, "shared_expert_intermediate_size", 512)}},
          .shared = "shared_expert",
          .shared_gate = "shared_expert_gate"};
}

}  // namespace

absl::StatusOr<NativeModel> ReadQwen3NextFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 151936,
                                                  .hidden_size = 2048,
                                                  .intermediate_size = 5632,
                                                  .num_hidden_layers = 48,
                                                  .num_attention_heads = 16,
                                                  .num_key_value_heads = 2,
                                                  .head_dim = 256,
                                                  .rope = {.share = 0.25}});
  SetHybrid(checkpoint, /*fused=*/true, decoder);
  const Mixture mixture = ReadMixture(checkpoint.fields(), 512, 10);
  const std::vector<bool> sparse = SparseLayers(checkpoint, decoder.layers);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (sparse[i]) SetMixture(checkpoint, i, mixture, decoder);
  }
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadQwen35Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 248320,
                                                  .intermediate_size = 12288,
                                                  .num_attention_heads = 16,
                                                  .num_key_value_heads = 4,
                                                  .head_dim = 256,
                                                  .rope = {.share = 0.25}});
  SetHybrid(checkpoint, /*fused=*/false, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadQwen35MoeFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 248320,
                                                  .hidden_size = 2048,
                                                  .num_hidden_layers = 40,
                                                  .num_attention_heads = 16,
                                                  .num_key_value_heads = 2,
                                                  .head_dim = 256,
                                                  .rope = {.share = 0.25}});
  SetHybrid(checkpoint, /*fused=*/false, decoder);
  const Mixture mixture = ReadMixture(checkpoint.fields(), 256, 8);
  for (int64_t i = 0; i < decoder.layers; ++i) SetMixture(checkpoint, i, mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
