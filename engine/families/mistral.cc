// "mistral" (Jiang et al. 2023): Llama's layers, each row sees the newest sliding_window; "ministral": those
// of layer_types alone; "ministral3" (2025): YaRN, and scores that grow with the position; "cwm" (Meta 2025):
// windows, every fourth layer whole.
#include "engine/families/llama.h"

namespace heed {

absl::StatusOr<NativeModel> ReadMistralFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(
      checkpoint, {.intermediate_size = 14336, .num_key_value_heads = 8, .tokens = {.bos = 1, .eos = 2}});
  SetWindows(std::vector<bool>(decoder.layers, true), WindowOf(checkpoint, 4096), decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadMinistralFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(
      checkpoint, {.intermediate_size = 14336, .num_key_value_heads = 8, .tokens = {.bos = 1, .eos = 2}});
  SetWindows(SlidingLayers(checkpoint, decoder.layers, [](int64_t) { return true; }),
             WindowOf(checkpoint, 4096), decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadMinistral3Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 131072,
                                                  .intermediate_size = 14336,
                                                  .num_hidden_layers = 34,
                                                  .num_key_value_heads = 8,
                                                  .head_dim = 128,
                                                  .tokens = {.bos = 1, .eos = 2, .pad = 11},
                                                  .eps = 1e-5,
                                                  .rope = {.theta = 1e6, .position_scale = true}});
  SetWindows(std::vector<bool>(decoder.layers, true), WindowOf(checkpoint, 0), decoder);
  SetPositionScale(checkpoint, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadCwmFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 128256,
                                                  .hidden_size = 6144,
                                                  .intermediate_size = 21504,
                                                  .num_hidden_layers = 64,
                                                  .num_attention_heads = 48,
                                                  .num_key_value_heads = 8,
                                                  .head_dim = 128,
                                                  .tokens = {.bos = 128000, .eos = {128001, 128008, 128009}},
                                                  .eps = 1e-5,
                                                  .rope = {.theta = 1e6}});
  SetWindows(SlidingLayers(checkpoint, decoder.layers, [](int64_t i) { return i % 4 != 0; }),
             WindowOf(checkpoint, 8192), decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
