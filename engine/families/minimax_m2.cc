// "minimax_m2" (MiniMax 2025): Llama's layers, norms over all queries and all keys, the first rotary_dim
// numbers of a head turned; in every layer experts chosen by sigmoids and a correction,
// block_sparse_moe.{gate, experts.E.{w1, w3, w2}, e_score_correction_bias}.
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadMinimaxM2Family(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  const int64_t head_dim = Size(fields, "head_dim", 128);
  const int64_t turned = fields.Int("rotary_dim", head_dim, 1, head_dim);
  Decoder decoder = ReadLlamaDecoder(
      checkpoint,
      {.vocab_size = 200064,
       .hidden_size = 3072,
       .intermediate_size = 1536,
       .num_hidden_layers = 62,
       .num_attention_heads = 48,
       .num_key_value_heads = 8,
       .head_dim = 128,
       .tokens = {.bos = 200034, .eos = 200020},
       .rope = {.theta = 5e6, .share = static_cast<double>(turned) / static_cast<double>(head_dim)}});
  AddQueryKeyNorms({{"type", "rms"}, {"over", "all"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  const bool fused = checkpoint.Has(decoder.layer_prefix + "0.mlp.gate.weight");
  const Mixture mixture{.options = {{"experts", Size(fields, "num_local_experts", 256)},
                                    {"top_k", Size(fields, "num_experts_per_tok", 8)},
                                    {"score", "sigmoid"},
                                    {"normalize", true}},
                        .module = fused ? "mlp" : "block_sparse_moe",
                        .correction = "e_score_correction_bias",
                        .gate = "w1",
                        .up = "w3",
                        .down = "w2"};
  for (int64_t i = 0; i < decoder.layers; ++i) SetMixture(checkpoint, i, mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
