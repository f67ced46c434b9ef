// Families that are Llama but for defaults and the pairs that are turned, which are neighbours: "helium"
// (Kyutai 2025), "ernie4_5" (Baidu 2025).
#include "engine/families/llama.h"

namespace heed {

absl::StatusOr<NativeModel> ReadHeliumFamily(Checkpoint& checkpoint) {
  return WithHead(checkpoint, ReadLlamaDecoder(checkpoint, {.vocab_size = 48000,
                                                            .hidden_size = 2560,
                                                            .intermediate_size = 7040,
                                                            .num_hidden_layers = 24,
                                                            .num_attention_heads = 20,
                                                            .num_key_value_heads = 20,
                                                            .head_dim = 128,
                                                            .tokens = {.bos = 1, .eos = 2, .pad = 3},
                                                            .eps = 1e-8,
                                                            .rope = {.theta = 100000, .interleaved = true}}));
}

absl::StatusOr<NativeModel> ReadErnie45Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 103424,
                                                  .hidden_size = 1024,
                                                  .intermediate_size = 3072,
                                                  .num_hidden_layers = 18,
                                                  .num_attention_heads = 16,
                                                  .num_key_value_heads = 2,
                                                  .head_dim = 128,
                                                  .tokens = {.bos = 1, .eos = 2, .pad = 0},
                                                  .eps = 1e-5,
                                                  .rope = {.theta = 500000, .interleaved = true}});
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

}  // namespace heed
