// "glm" (GLM team 2024): Llama's layers with fused gate_up_proj, half of each head turned, pairs of
// neighbours. "glm4" (2025): also norms after the sublayers, post_self_attn_layernorm and post_mlp_layernorm.
#include "engine/families/llama.h"

namespace heed {
namespace {

Decoder ReadGlm(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 151552,
                                                  .intermediate_size = 13696,
                                                  .num_hidden_layers = 40,
                                                  .num_key_value_heads = 2,
                                                  .head_dim = 128,
                                                  .tokens = {.eos = {151329, 151336, 151338}, .pad = 151329},
                                                  .eps = 1.5625e-07,
                                                  .rope = {.share = 0.5, .interleaved = true}});
  AddFusedGate(decoder);
  return decoder;
}

}  // namespace

absl::StatusOr<NativeModel> ReadGlmFamily(Checkpoint& checkpoint) {
  return WithHead(checkpoint, ReadGlm(checkpoint));
}

absl::StatusOr<NativeModel> ReadGlm4Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadGlm(checkpoint);
  decoder.config()["norm"] = "sandwich";
  decoder.AddModules("norm1_post", "post_self_attn_layernorm");
  decoder.AddModules("norm2_post", "post_mlp_layernorm");
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
