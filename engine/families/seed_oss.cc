// "seed_oss" (ByteDance 2025): Llama's layers, biases of queries, keys and values where attention_bias says
// so.
#include "engine/families/llama.h"

namespace heed {

absl::StatusOr<NativeModel> ReadSeedOssFamily(Checkpoint& checkpoint) {
  return WithHead(checkpoint, ReadLlamaDecoder(checkpoint, {.vocab_size = 155136,
                                                            .intermediate_size = 27648,
                                                            .num_hidden_layers = 64,
                                                            .num_attention_heads = 80,
                                                            .num_key_value_heads = 8,
                                                            .head_dim = 128,
                                                            .tokens = {.bos = 0, .eos = 2, .pad = 1}}));
}

}  // namespace heed
