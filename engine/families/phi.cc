// "phi" (Li et al. 2023): Llama's names, attention and feed-forward beside one another, both of one layer
// norm; half of each head turned, biases everywhere. Names: self_attn.dense, mlp.{fc1, fc2},
// model.final_layernorm. "phi3" (Abdin et al. 2024): Llama's layers with fused qkv_proj [queries, keys,
// values] and gate_up_proj; its longrope is served within the original
// length.
#include "engine/families/llama.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadPhiFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 51200,
                                                  .hidden_size = 2048,
                                                  .intermediate_size = 8192,
                                                  .num_hidden_layers = 24,
                                                  .tokens = {.bos = 1, .eos = 2},
                                                  .act = "gelu_new",
                                                  .gated = false,
                                                  .norm_type = "layer",
                                                  .eps_key = "layer_norm_eps",
                                                  .eps = 1e-5,
                                                  .rope = {.share = 0.5}});
  decoder.SetParallel("input_layernorm");
  decoder.AddModules("attention.o", "self_attn.dense");
  decoder.AddModules("ffn.up", "mlp.fc1");
  decoder.AddModules("ffn.down", "mlp.fc2");
  decoder.tensors().AddModule("norm", checkpoint.Prefix("model.") + "final_layernorm");
  if (checkpoint.fields().Bool("qk_layernorm", false)) {
    AddQueryKeyNorms({{"type", "layer"}, {"over", "head"}, {"bias", true}}, "self_attn.q_layernorm",
                     "self_attn.k_layernorm", decoder);
  }
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadPhi3Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 32064,
                                                  .hidden_size = 3072,
                                                  .intermediate_size = 8192,
                                                  .tokens = {.bos = 1, .eos = 32000, .pad = 32000},
                                                  .eps = 1e-5});
  SetWindows(std::vector<bool>(decoder.layers, true), WindowOf(checkpoint, 0), decoder);
  decoder.AddFused("self_attn.qkv_proj", 1,
                   {decoder.heads, decoder.key_value_heads, decoder.key_value_heads});
  AddFusedGate(decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
