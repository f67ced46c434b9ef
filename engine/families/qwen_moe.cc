// "qwen2_moe" (Qwen team 2024): Qwen 2's layers, of which every decoder_sparse_step-th has experts and an
// expert for all rows, times sigmoid(shared_expert_gate); the others are dense. "qwen3_moe" (2025): also a
// norm of each head's queries and keys, and no shared expert. norm_topk_prob: the chosen scores are divided
// by their sum. "mellum" (JetBrains 2026): windows in the layers that layer_types says, each type of layer
// turned by rope_parameters of its own; mlp_layer_types says which have experts.
#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

Json ExpertsOf(JsonFields& fields, int64_t experts, int64_t chosen, int64_t hidden) {
  const char* key = fields.Has("num_local_experts") ? "num_local_experts" : "num_experts";
  return {{"experts", Size(fields, key, experts)},
          {"top_k", Size(fields, "num_experts_per_tok", chosen)},
          {"intermediate_size", Size(fields, "moe_intermediate_size", hidden)},
          {"normalize", fields.Bool("norm_topk_prob", false)}};
}

void SetMixtures(Checkpoint& checkpoint, const Mixture& mixture, Decoder& decoder) {
  const std::vector<bool> sparse = SparseLayers(checkpoint, decoder.layers);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (sparse[i]) SetMixture(checkpoint, i, mixture, decoder);
  }
}

bool IsSparse(JsonFields& fields, int64_t i) {
  const Json& types = fields.Raw("mlp_layer_types");
  if (types.is_null()) return true;
  const std::string type =
      types.is_array() && i < std::ssize(types) && types[i].is_string() ? types[i].get<std::string>() : "";
  if (type != "sparse" && type != "dense")
    fields.Fail(Cat("mlp_layer_types: the layer ", i, " is neither \"dense\" nor \"sparse\""));
  return type == "sparse";
}

}  // namespace

absl::StatusOr<NativeModel> ReadMellumFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 98304,
                                                  .hidden_size = 2304,
                                                  .intermediate_size = 7168,
                                                  .num_hidden_layers = 28,
                                                  .num_attention_heads = 32,
                                                  .num_key_value_heads = 4,
                                                  .head_dim = 128,
                                                  .rope = {.theta = 5e5}});
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  const std::vector<bool> sliding = SlidingLayers(checkpoint, decoder.layers, [](int64_t) { return false; });
  SetWindows(sliding, WindowOf(checkpoint, 1024), decoder);
  Mixture mixture{.options = ExpertsOf(checkpoint.fields(), 64, 8, 896)};
  mixture.options["normalize"] = checkpoint.fields().Bool("norm_topk_prob", true);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (sliding[i])
      decoder.attention(i)["rope"] = ReadRope(checkpoint, {}, decoder.head_dim, "sliding_attention");
    if (IsSparse(checkpoint.fields(), i)) SetMixture(checkpoint, i, mixture, decoder);
  }
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadQwen2MoeFamily(Checkpoint& checkpoint) {
  checkpoint.Require("use_sliding_window", false);
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 151936,
                                                  .hidden_size = 2048,
                                                  .intermediate_size = 5632,
                                                  .num_hidden_layers = 24,
                                                  .num_attention_heads = 16,
                                                  .num_key_value_heads = 16});
  JsonFields& fields = checkpoint.fields();
  Mixture mixture{.options = ExpertsOf(fields, 60, 4, 1408),
                  .shared = "shared_expert",
                  .shared_gate = "shared_expert_gate"};
  mixture.options["shared_size"] = Size(fields, "shared_expert_intermediate_size", 5632);
  SetMixtures(checkpoint, mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadQwen3MoeFamily(Checkpoint& checkpoint) {
  checkpoint.Require("use_sliding_window", false);
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 151936,
                                                  .hidden_size = 2048,
                                                  .intermediate_size = 6144,
                                                  .num_hidden_layers = 24,
                                                  .num_attention_heads = 32,
                                                  .num_key_value_heads = 4});
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  SetMixtures(checkpoint, {.options = ExpertsOf(checkpoint.fields(), 128, 8, 768)}, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
