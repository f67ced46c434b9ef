// "starcoder2" (Lozhkov et al. 2024): Llama's names, layer norms, biases, a feed-forward without a gate
// (mlp.{c_fc, c_proj}), a window.
#include "engine/families/llama.h"

namespace heed {

absl::StatusOr<NativeModel> ReadStarcoder2Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 49152,
                                                  .hidden_size = 3072,
                                                  .intermediate_size = 12288,
                                                  .num_hidden_layers = 30,
                                                  .num_attention_heads = 24,
                                                  .num_key_value_heads = 2,
                                                  .tokens = {.bos = 50256, .eos = 50256},
                                                  .act = "gelu_pytorch_tanh",
                                                  .gated = false,
                                                  .norm_type = "layer",
                                                  .eps_key = "norm_epsilon",
                                                  .eps = 1e-5});
  SetWindows(std::vector<bool>(decoder.layers, true), WindowOf(checkpoint, 0), decoder);
  decoder.AddModules("ffn.up", "mlp.c_fc");
  decoder.AddModules("ffn.down", "mlp.c_proj");
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

}  // namespace heed
