// "nemotron" (Parmar et al. 2024): Llama's names, layer norms whose weights are stored minus one, a
// feed-forward of squared ReLU without a gate, half of each head turned. "jais2" (2025): plain layer norms,
// whole heads. "arcee" (Arcee 2025): Llama with that feed-forward.
#include "engine/families/llama.h"

namespace heed {

absl::StatusOr<NativeModel> ReadNemotronFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 256000,
                                                  .hidden_size = 6144,
                                                  .intermediate_size = 24576,
                                                  .num_attention_heads = 48,
                                                  .tokens = {.bos = 2, .eos = 3},
                                                  .act = "relu2",
                                                  .gated = false,
                                                  .norm_type = "layer",
                                                  .eps_key = "norm_eps",
                                                  .eps = 1e-5,
                                                  .rope = {.share = 0.5}});
  decoder.config()["norm_offset"] = 1;
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadJais2Family(Checkpoint& checkpoint) {
  return WithHead(checkpoint, ReadLlamaDecoder(checkpoint, {.vocab_size = 150272,
                                                            .hidden_size = 3328,
                                                            .intermediate_size = 26624,
                                                            .num_attention_heads = 26,
                                                            .tokens = {.bos = 0, .eos = 150024},
                                                            .act = "relu2",
                                                            .gated = false,
                                                            .norm_type = "layer",
                                                            .eps_key = "layer_norm_eps",
                                                            .eps = 1e-5,
                                                            .rope = {.theta = 500000}}));
}

absl::StatusOr<NativeModel> ReadArceeFamily(Checkpoint& checkpoint) {
  return WithHead(checkpoint, ReadLlamaDecoder(checkpoint, {.hidden_size = 2560,
                                                            .intermediate_size = 18432,
                                                            .tokens = {.bos = 128000, .eos = 128001},
                                                            .act = "relu2",
                                                            .gated = false,
                                                            .eps = 1e-5}));
}

}  // namespace heed
