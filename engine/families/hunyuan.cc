// "hunyuan_v1_dense" (Tencent 2025): Llama's layers, norms of each head's queries and keys after they are
// turned. Its rope_scaling of type "dynamic" is not served.
#include "engine/families/llama.h"

namespace heed {

absl::StatusOr<NativeModel> ReadHunyuanFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(
      checkpoint, {.vocab_size = 290943, .tokens = {.bos = 1, .eos = 2, .pad = 0}, .eps = 1e-5});
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}, {"after_rope", true}}, "self_attn.query_layernorm",
                   "self_attn.key_layernorm", decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
