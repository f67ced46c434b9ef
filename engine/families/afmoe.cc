// "afmoe" (Trinity, Arcee 2025): Llama's layers, norms before and after each sublayer (pre_mlp_layernorm,
// post_mlp_layernorm), norms of each head's queries and keys, what is attended times the sigmoid of
// gate_proj; three layers with a window, which are turned, to one without, which is not; experts chosen by
// sigmoids and a correction, and some for all rows. With mup_enabled tokens times the root of their width.
#include <cmath>

#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

void SetAfmoeAttention(Checkpoint& checkpoint, Decoder& decoder) {
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  decoder.SetAttention("output_gate", true);
  decoder.AddModules("attention.gate", "self_attn.gate_proj");
  const int64_t pattern = checkpoint.fields().Int("global_attn_every_n_layers", 4, 1, kMostLayers);
  const std::vector<bool> sliding =
      SlidingLayers(checkpoint, decoder.layers, [&](int64_t i) { return (i + 1) % pattern != 0; });
  SetWindows(sliding, WindowOf(checkpoint, 1024), decoder);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!sliding[i]) decoder.attention(i).erase("rope");
  }
}

void SetAfmoeNorms(Decoder& decoder) {
  decoder.config()["norm"] = "sandwich";
  decoder.AddModules("norm1_post", "post_attention_layernorm");
  decoder.AddModules("norm2", "pre_mlp_layernorm");
  decoder.AddModules("norm2_post", "post_mlp_layernorm");
}

}  // namespace

absl::StatusOr<NativeModel> ReadAfmoeFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 200192,
                                                  .hidden_size = 2048,
                                                  .intermediate_size = 6144,
                                                  .num_attention_heads = 16,
                                                  .head_dim = 128,
                                                  .eps = 1e-5});
  SetAfmoeAttention(checkpoint, decoder);
  SetAfmoeNorms(decoder);
  JsonFields& fields = checkpoint.fields();
  if (fields.Bool("mup_enabled", false))
    decoder.config()["embedding_scale"] = std::sqrt(static_cast<double>(decoder.width));
  checkpoint.Require("score_func", "sigmoid");
  const int64_t hidden = Size(fields, "moe_intermediate_size", 1408);
  Mixture mixture{.options = {{"experts", Size(fields, "num_experts", 64)},
                              {"top_k", Size(fields, "num_experts_per_tok", 6)},
                              {"intermediate_size", hidden},
                              {"score", "sigmoid"},
                              {"normalize", fields.Bool("route_norm", true)},
                              {"scale", fields.Number("route_scale", 1, 1e-6, 1e6)}},
                  .router = "router.gate",
                  .correction = "expert_bias"};
  if (const int64_t shared = fields.Int("num_shared_experts", 2, 0, kMostSize)) {
    mixture.options["shared_size"] = hidden * shared;
    mixture.shared = "shared_experts";
  }
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 1, "num_dense_layers"), mixture,
              decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
