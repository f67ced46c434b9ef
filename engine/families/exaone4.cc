// "exaone4" (LG AI Research 2025): Llama's names, norms of what attention and feed-forward give and none
// before, norms of each head's queries and keys; where some layers see a window, the others are not turned.
// "exaone_moe" (2025): norms before, experts chosen by sigmoids and a correction, and one for all rows.
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

// Norms of queries and keys, windows, and no rotation in layers without.
void SetExaoneAttention(Checkpoint& checkpoint, Decoder& decoder) {
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  const int64_t window = WindowOf(checkpoint, 4096);
  const int64_t pattern = checkpoint.fields().Int("sliding_window_pattern", 4, 1, 1024);
  const std::vector<bool> sliding = SlidingLayers(
      checkpoint, decoder.layers, [&](int64_t i) { return window > 0 && (i + 1) % pattern != 0; });
  SetWindows(sliding, window, decoder);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (window > 0 && !sliding[i]) decoder.attention(i).erase("rope");
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadExaone4Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 102400,
                                                  .intermediate_size = 16384,
                                                  .num_key_value_heads = 32,
                                                  .tokens = {.bos = 0, .eos = 2},
                                                  .eps = 1e-5});
  SetNormsAfter(decoder);
  SetExaoneAttention(checkpoint, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadExaoneMoeFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 102400,
                                                  .intermediate_size = 16384,
                                                  .num_key_value_heads = 32,
                                                  .tokens = {.bos = 1, .eos = 53, .pad = 0},
                                                  .eps = 1e-5,
                                                  .rope = {.theta = 1e6}});
  SetExaoneAttention(checkpoint, decoder);
  JsonFields& fields = checkpoint.fields();
  const int64_t hidden = Size(fields, "moe_intermediate_size", 1024);
  const Mixture mixture{.options = {{"experts", Size(fields, "num_experts", 64)},
                                    {"top_k", Size(fields, "num_experts_per_tok", 8)},
                                    {"intermediate_size", hidden},
                                    {"score", "sigmoid"},
                                    {"normalize", fields.Bool("norm_topk_prob", true)},
                                    {"scale", fields.Number("routed_scaling_factor", 2.5, 1e-6, 1e6)},
                                    {"groups", Size(fields, "n_group", 1)},
                                    {"top_groups", Size(fields, "topk_group", 1)},
                                    {"shared_size", hidden * Size(fields, "num_shared_experts", 1)}},
                        .correction = "e_score_correction_bias",
                        .shared = "shared_experts"};
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 1), mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
