// "gpt_bigcode" (SantaCoder, StarCoder: Li et al. 2023): GPT-2's layers, products as [out, in]. With
// multi_query all heads share a key and a value: rows of c_attn are all queries, the key, the value; else
// they are, head by head, query, key, value.
#include "engine/families/gpt2.h"

namespace heed {

absl::StatusOr<NativeModel> ReadGptBigcodeFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGpt2Decoder(checkpoint, "gelu_pytorch_tanh");
  const bool shared = checkpoint.fields().Bool("multi_query", true);
  if (shared) decoder.SetAttention("num_key_value_heads", 1);
  decoder.AddFused("attn.c_attn", shared ? 1 : decoder.heads, {shared ? decoder.heads : 1, 1, 1});
  decoder.AddModules("attention.o", "attn.c_proj");
  decoder.AddModules("ffn.up", "mlp.c_fc");
  decoder.AddModules("ffn.down", "mlp.c_proj");
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

}  // namespace heed
