// "bamba" (IBM 2024): the second Mamba's mixers, mamba.{in_proj, conv1d, dt_bias, A_log, D, norm, out_proj},
// in all layers but those of attn_layer_indices, whose attention turns half of a head; each layer's SwiGLU
// is feed_forward behind pre_ff_layernorm; the last norm is final_layernorm.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/families/llama.h"
#include "engine/families/mamba.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadBambaFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 128000,
                                                  .intermediate_size = 14336,
                                                  .num_key_value_heads = 8,
                                                  .tokens = {.bos = 1, .eos = 2, .pad = 0},
                                                  .eps = 1e-5,
                                                  .rope = {.share = 0.5}});
  const std::vector<int64_t> attention =
      checkpoint.fields().Ints("attn_layer_indices", 0, kMostLayers, 0, kMostLayers);
  const Json mixer = ReadMamba2Layer(checkpoint, decoder);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (std::ranges::count(attention, i) == 0) SetMixer(i, mixer, "mamba", decoder);
  }
  SetFeedForwardNames(checkpoint, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
