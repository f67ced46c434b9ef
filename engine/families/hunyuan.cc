// "hunyuan_v1_dense" (Tencent 2025): Llama's layers, norms of each head's queries and keys after they are
// turned. Its rope_scaling of type "dynamic", with alpha, is not served. "hy_v3" (2026): norms before they
// are turned, experts chosen by sigmoids and a correction, and one for all rows.
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadHunyuanFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(
      checkpoint, {.vocab_size = 290943, .tokens = {.bos = 1, .eos = 2, .pad = 0}, .eps = 1e-5});
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}, {"after_rope", true}}, "self_attn.query_layernorm",
                   "self_attn.key_layernorm", decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadHyV3Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 120832,
                                                  .intermediate_size = 13312,
                                                  .num_hidden_layers = 80,
                                                  .num_attention_heads = 64,
                                                  .num_key_value_heads = 8,
                                                  .head_dim = 128,
                                                  .eps = 1e-5,
                                                  .rope = {.theta = 11158840}});
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  JsonFields& fields = checkpoint.fields();
  const int64_t hidden = Size(fields, "moe_intermediate_size", 1536);
  const Mixture mixture{.options = {{"experts", Size(fields, "num_experts", 192)},
                                    {"top_k", Size(fields, "num_experts_per_tok", 8)},
                                    {"intermediate_size", hidden},
                                    {"score", "sigmoid"},
                                    {"normalize", fields.Bool("route_norm", true)},
                                    {"scale", fields.Number("router_scaling_factor", 1, 1e-6, 1e6)},
                                    {"shared_size", hidden * Size(fields, "num_shared_experts", 1)}},
                        .router = "router.gate",
                        .correction = "expert_bias",
                        .shared = "shared_mlp"};
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 1), mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
