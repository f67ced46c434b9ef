// "exaone4" (LG AI Research 2025): Llama's names, norms of what attention and feed-forward give and none
// before, norms of each head's queries and keys; where some layers see a window, the others are not turned.
#include "engine/families/llama.h"

namespace heed {

absl::StatusOr<NativeModel> ReadExaone4Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 102400,
                                                  .intermediate_size = 16384,
                                                  .num_key_value_heads = 32,
                                                  .tokens = {.bos = 0, .eos = 2},
                                                  .eps = 1e-5});
  SetNormsAfter(decoder);
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  const int64_t window = WindowOf(checkpoint, 4096);
  const int64_t pattern = checkpoint.fields().Int("sliding_window_pattern", 4, 1, 1024);
  const std::vector<bool> sliding = SlidingLayers(
      checkpoint, decoder.layers, [&](int64_t i) { return window > 0 && (i + 1) % pattern != 0; });
  SetWindows(sliding, window, decoder);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (window > 0 && !sliding[i]) decoder.attention(i).erase("rope");
  }
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
