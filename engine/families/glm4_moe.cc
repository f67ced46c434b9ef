// "glm4_moe" (GLM-4.5, 2025): Llama's layers, half of a head turned, with use_qk_norm norms of each head's
// queries and keys; the first first_k_dense_replace layers are dense, the others have experts chosen by
// sigmoids and a correction, from the best groups, and an expert for all rows. "solar_open" (Upstage 2026):
// whole heads turned, no such norms, experts in every layer.
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// `hidden`: of an expert, where config.json does not say it.
Mixture MixtureOf(JsonFields& fields, int64_t hidden) {
  hidden = Size(fields, "moe_intermediate_size", hidden);
  return {.options = {{"experts", Size(fields, "n_routed_experts", 128)},
                      {"top_k", Size(fields, "num_experts_per_tok", 8)},
                      {"intermediate_size", hidden},
                      {"score", "sigmoid"},
                      {"normalize", fields.Bool("norm_topk_prob", true)},
                      {"scale", fields.Number("routed_scaling_factor", 1, 1e-6, 1e6)},
                      {"groups", Size(fields, "n_group", 1)},
                      {"top_groups", Size(fields, "topk_group", 1)},
                      {"shared_size", hidden * Size(fields, "n_shared_experts", 1)}},
          .correction = "gate.e_score_correction_bias",
          .shared = "shared_experts"};
}

}  // namespace

absl::StatusOr<NativeModel> ReadGlm4MoeFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 151552,
                                                  .intermediate_size = 10944,
                                                  .num_hidden_layers = 46,
                                                  .num_attention_heads = 96,
                                                  .num_key_value_heads = 8,
                                                  .eps = 1e-5,
                                                  .rope = {.share = 0.5}});
  JsonFields& fields = checkpoint.fields();
  if (fields.Bool("use_qk_norm", false))
    AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  const Mixture mixture = MixtureOf(fields, 1408);
  const int64_t dense = fields.Int("first_k_dense_replace", 1, 0, kMostLayers);
  for (int64_t i = dense; i < decoder.layers; ++i) SetMixture(checkpoint, i, mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadSolarOpenFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 196608,
                                                  .intermediate_size = 10240,
                                                  .num_hidden_layers = 48,
                                                  .num_attention_heads = 64,
                                                  .num_key_value_heads = 8,
                                                  .head_dim = 128,
                                                  .eps = 1e-5,
                                                  .rope = {.theta = 1e6}});
  const Mixture mixture = MixtureOf(checkpoint.fields(), 1280);
  for (int64_t i = 0; i < decoder.layers; ++i) SetMixture(checkpoint, i, mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
