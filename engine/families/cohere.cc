// "cohere" (Command R, 2024): Llama's names, attention and feed-forward beside one another, both of one layer
// norm, norms without biases; pairs of neighbours are turned; logits times logit_scale. "cohere2" (2025):
// three layers with a window, which are turned, to one without, which is not.
#include "engine/families/llama.h"

namespace heed {
namespace {

Decoder ReadCohere(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 256000,
                                                  .hidden_size = 8192,
                                                  .intermediate_size = 22528,
                                                  .num_hidden_layers = 40,
                                                  .num_attention_heads = 64,
                                                  .tokens = {.bos = 5, .eos = 255001, .pad = 0},
                                                  .norm_type = "layer",
                                                  .eps_key = "layer_norm_eps",
                                                  .eps = 1e-5,
                                                  .rope = {.interleaved = true}});
  decoder.SetParallel("input_layernorm");
  decoder.config()["norm_bias"] = false;
  const double scale = checkpoint.fields().Number("logit_scale", 0.0625, -1e6, 1e6);
  if (checkpoint.task() == "CausalLM") decoder.config()["logits_scale"] = scale;
  return decoder;
}

}  // namespace

absl::StatusOr<NativeModel> ReadCohereFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadCohere(checkpoint);
  if (checkpoint.fields().Bool("use_qk_norm", false)) {
    AddQueryKeyNorms({{"type", "layer"}, {"over", "head"}, {"per_head", true}}, "self_attn.q_norm",
                     "self_attn.k_norm", decoder);
  }
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

absl::StatusOr<NativeModel> ReadCohere2Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadCohere(checkpoint);
  JsonFields& fields = checkpoint.fields();
  const int64_t pattern =
      fields.Int("sliding_window_pattern", fields.Int("_sliding_window_pattern", 4, 1, 1024), 1, 1024);
  const std::vector<bool> sliding =
      SlidingLayers(checkpoint, decoder.layers, [&](int64_t i) { return (i + 1) % pattern != 0; });
  SetWindows(sliding, WindowOf(checkpoint, 4096), decoder);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!sliding[i]) decoder.attention(i).erase("rope");
  }
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

}  // namespace heed
