// "laguna" (Poolside 2026): Llama's layers, norms of each head's queries and keys, what a head has attended
// times the softplus of a number of its own (g_proj); layers may have other numbers of heads, windows, and a
// rotation by their type; experts chosen by sigmoids and a correction, and one for all rows.
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

void SetLagunaAttention(Checkpoint& checkpoint, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("gating", true);
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  decoder.SetAttention("output_gate", "head_softplus");
  decoder.AddModules("attention.gate", "self_attn.g_proj");
  const std::vector<bool> sliding = SlidingLayers(checkpoint, decoder.layers, [](int64_t) { return false; });
  SetWindows(sliding, WindowOf(checkpoint, 512), decoder);
  const std::vector<int64_t> heads =
      fields.Ints("num_attention_heads_per_layer", 0, kMostLayers, 1, kMostSize);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (i < std::ssize(heads)) decoder.attention(i)["num_heads"] = heads[i];
    if (sliding[i])
      decoder.attention(i)["rope"] = ReadRope(checkpoint, {}, decoder.head_dim, "sliding_attention");
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadLagunaFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 100352,
                                                  .hidden_size = 2048,
                                                  .intermediate_size = 8192,
                                                  .num_hidden_layers = 40,
                                                  .num_attention_heads = 48,
                                                  .num_key_value_heads = 8,
                                                  .head_dim = 128,
                                                  .rope = {.theta = 5e5}});
  SetLagunaAttention(checkpoint, decoder);
  JsonFields& fields = checkpoint.fields();
  checkpoint.Require("moe_apply_router_weight_on_input", false);
  checkpoint.Require("moe_router_logit_softcapping", 0.0);
  const Mixture mixture{.options = {{"experts", Size(fields, "num_experts", 256)},
                                    {"top_k", Size(fields, "num_experts_per_tok", 8)},
                                    {"intermediate_size", Size(fields, "moe_intermediate_size", 512)},
                                    {"score", "sigmoid"},
                                    {"normalize", true},
                                    {"scale", fields.Number("moe_routed_scaling_factor", 1, 1e-6, 1e6)},
                                    {"shared_size", Size(fields, "shared_expert_intermediate_size", 512)}},
                        .correction = "experts.e_score_correction_bias",
                        .shared = "shared_expert"};
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 1), mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
