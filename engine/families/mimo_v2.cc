// "mimo_v2_flash" (Xiaomi 2025): Llama's layers, values narrower than keys and times attention_value_scale,
// a share of a head turned; in layers with a window a learned sink a head (attention_sink_bias), a theta of
// their own and other numbers of key-value heads; experts chosen by sigmoids and a correction.
#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr double kShare = 0.334;  // of a head, that is turned

void SetMimoAttention(Checkpoint& checkpoint, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const std::vector<bool> sliding =
      SlidingLayers(checkpoint, decoder.layers, [](int64_t i) { return i % 6 != 5; });
  SetWindows(sliding, WindowOf(checkpoint, 128), decoder);
  decoder.SetAttention("value_dim", Size(fields, "v_head_dim", 128));
  const int64_t heads = Size(fields, "swa_num_key_value_heads", 2 * decoder.key_value_heads);
  const auto scale = static_cast<float>(fields.Number("attention_value_scale", 1, 1e-6, 1e6));
  decoder.AddModules("attention.v", "self_attn.v_proj",
                     [&](const ViewedTensor& v) { return scale == 1 ? v : v.Times(scale); });
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!sliding[i]) continue;
    Json& attention = decoder.attention(i);
    attention["num_key_value_heads"] = heads;
    attention["learned_sink"] = true;
    attention["rope"] = ReadRope(checkpoint, {.share = kShare}, decoder.head_dim, "sliding_attention");
    decoder.tensors().Add(Cat("layers.", i, ".attention.sink.weight"),
                          Cat(decoder.layer_prefix, i, ".self_attn.attention_sink_bias"));
  }
}

}  // namespace

absl::StatusOr<NativeModel> ReadMimoV2FlashFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 152576,
                                                  .intermediate_size = 16384,
                                                  .num_hidden_layers = 48,
                                                  .num_attention_heads = 64,
                                                  .num_key_value_heads = 4,
                                                  .head_dim = 192,
                                                  .eps = 1e-5,
                                                  .rope = {.theta = 5e6, .share = kShare}});
  SetMimoAttention(checkpoint, decoder);
  JsonFields& fields = checkpoint.fields();
  const Mixture mixture{.options = {{"experts", Size(fields, "n_routed_experts", 256)},
                                    {"top_k", Size(fields, "num_experts_per_tok", 8)},
                                    {"intermediate_size", Size(fields, "moe_intermediate_size", 2048)},
                                    {"score", "sigmoid"},
                                    {"normalize", fields.Bool("norm_topk_prob", true)},
                                    {"scale", fields.Number("routed_scaling_factor", 1, 1e-6, 1e6)},
                                    {"groups", Size(fields, "n_group", 1)},
                                    {"top_groups", Size(fields, "topk_group", 1)}},
                        .correction = "gate.e_score_correction_bias"};
  SetMixtures(checkpoint, LayersWithExperts(checkpoint, decoder.layers, 1), mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
