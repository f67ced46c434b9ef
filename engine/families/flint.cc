// "flint" (2026): Llama's layers, norms of each head's queries and keys, a learned sink a head
// (softmax_offset); layers with a window are turned, those without are not; every decoder_sparse_step-th but
// those of mlp_only_layers has experts, chosen by sigmoids, and one for all rows.
#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

void SetFlintAttention(Checkpoint& checkpoint, Decoder& decoder) {
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  decoder.SetAttention("learned_sink", true);
  const std::vector<bool> sliding = SlidingLayers(checkpoint, decoder.layers, [](int64_t) { return false; });
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!sliding[i]) decoder.attention(i).erase("rope");
    decoder.tensors().Add(Cat("layers.", i, ".attention.sink.weight"),
                          Cat(decoder.layer_prefix, i, ".self_attn.softmax_offset"));
  }
  SetWindows(sliding, Size(checkpoint.fields(), "sliding_window", 0), decoder);
}

void SetFlintExperts(Checkpoint& checkpoint, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const Mixture mixture{.options = {{"experts", Size(fields, "num_experts", 0)},
                                    {"top_k", Size(fields, "num_experts_per_tok", 0)},
                                    {"intermediate_size", Size(fields, "moe_intermediate_size", 0)},
                                    {"score", "sigmoid"},
                                    {"normalize", fields.Bool("norm_topk_prob", true)},
                                    {"shared_size", Size(fields, "shared_expert_intermediate_size", 0)}},
                        .shared = "shared_expert"};
  SetMixtures(checkpoint, SparseLayers(checkpoint, decoder.layers), mixture, decoder);
}

}  // namespace

absl::StatusOr<NativeModel> ReadFlintFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 0,
                                                  .hidden_size = 0,
                                                  .intermediate_size = 0,
                                                  .num_hidden_layers = 0,
                                                  .num_attention_heads = 0});
  SetFlintAttention(checkpoint, decoder);
  SetFlintExperts(checkpoint, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
