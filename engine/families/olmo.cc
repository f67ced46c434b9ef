// "olmo" (Groeneveld et al. 2024): Llama's layers, layer norms without weights, queries, keys and values
// clamped. "olmo2" (2025): norms of what attention and feed-forward give, none before; queries and keys
// normed as a whole. "olmo3" (2025): also three layers with a window, whose rope is not scaled, to one
// without.
#include "engine/families/llama.h"

namespace heed {
namespace {

const TokenIds& OlmoTokens() {
  static const auto& tokens = *new TokenIds{.eos = 50279, .pad = 1};
  return tokens;
}

Decoder ReadOlmo2(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 50304, .tokens = OlmoTokens(), .eps = 1e-5});
  SetNormsAfter(decoder);
  AddQueryKeyNorms({{"type", "rms"}, {"over", "all"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  return decoder;
}

}  // namespace

absl::StatusOr<NativeModel> ReadOlmoFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(
      checkpoint,
      {.vocab_size = 50304, .tokens = OlmoTokens(), .norm_type = "layer", .eps_key = "", .eps = 1e-5});
  decoder.config()["norm_weight"] = false;
  decoder.config()["norm_bias"] = false;
  if (const auto limit = NumberOrNone(checkpoint, "clip_qkv", std::nullopt, 1e-6, 1e6))
    decoder.SetAttention("clip_qkv", *limit);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadOlmo2Family(Checkpoint& checkpoint) {
  return WithHead(checkpoint, ReadOlmo2(checkpoint));
}

absl::StatusOr<NativeModel> ReadOlmo3Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadOlmo2(checkpoint);
  const std::vector<bool> sliding =
      SlidingLayers(checkpoint, decoder.layers, [](int64_t i) { return (i + 1) % 4 != 0; });
  SetWindows(sliding, WindowOf(checkpoint, 4096), decoder);
  const bool by_type = checkpoint.fields().Has("rope_parameters");
  const Json rope = by_type ? ReadRope(checkpoint, {}, decoder.head_dim, "sliding_attention") : Json();
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!sliding[i]) continue;
    if (by_type) {
      decoder.attention(i)["rope"] = rope;
    } else {
      decoder.attention(i)["rope"].erase("scaling");
    }
  }
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
