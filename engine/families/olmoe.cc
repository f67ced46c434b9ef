// "olmoe" (Muennighoff et al. 2024): Llama's layers, norms over all queries and all keys, clip_qkv behind
// those norms, experts in every layer.
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadOlmoeFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 50304,
                                                  .hidden_size = 2048,
                                                  .intermediate_size = 2048,
                                                  .num_hidden_layers = 16,
                                                  .num_attention_heads = 16,
                                                  .tokens = {.eos = 50279, .pad = 1},
                                                  .eps = 1e-5});
  AddQueryKeyNorms({{"type", "rms"}, {"over", "all"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  if (const auto limit = NumberOrNone(checkpoint, "clip_qkv", std::nullopt, 1e-6, 1e6)) {
    decoder.SetAttention("clip_qkv", *limit);
    decoder.SetAttention("clip_normed", true);
  }
  JsonFields& fields = checkpoint.fields();
  const Mixture mixture{.options = {{"experts", Size(fields, "num_experts", 64)},
                                    {"top_k", Size(fields, "num_experts_per_tok", 8)},
                                    {"normalize", fields.Bool("norm_topk_prob", false)}}};
  for (int64_t i = 0; i < decoder.layers; ++i) SetMixture(checkpoint, i, mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
