// "smollm3" (Hugging Face 2025): Llama's layers; every no_rope_layer_interval-th is not turned
// (no_rope_layers: 1 of those that are), and with use_sliding_window sees a window.
#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

std::vector<bool> TurnedLayers(Checkpoint& checkpoint, int64_t layers) {
  JsonFields& fields = checkpoint.fields();
  const int64_t interval = fields.Int("no_rope_layer_interval", 4, 1, kMostLayers);
  const std::vector<int64_t> told = fields.Ints("no_rope_layers", 0, kMostLayers, 0, 1);
  if (!told.empty() && static_cast<int64_t>(told.size()) != layers)
    fields.Fail(Cat("no_rope_layers: ", told.size(), " of ", layers, " layers"));
  std::vector<bool> turned(layers);
  for (int64_t i = 0; i < layers; ++i) {
    turned[i] = static_cast<int64_t>(told.size()) == layers ? told[i] == 1 : (i + 1) % interval != 0;
  }
  return turned;
}

}  // namespace

absl::StatusOr<NativeModel> ReadSmollm3Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 128256,
                                                  .hidden_size = 2048,
                                                  .num_hidden_layers = 36,
                                                  .num_attention_heads = 16,
                                                  .num_key_value_heads = 4,
                                                  .tokens = {.bos = 128000, .eos = 128001, .pad = 128004},
                                                  .rope = {.theta = 2e6}});
  const std::vector<bool> turned = TurnedLayers(checkpoint, decoder.layers);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!turned[i]) decoder.attention(i).erase("rope");
  }
  const int64_t window = checkpoint.fields().Bool("use_sliding_window", false) ? WindowOf(checkpoint, 0) : 0;
  SetWindows(SlidingLayers(checkpoint, decoder.layers, [&](int64_t i) { return !turned[i]; }), window,
             decoder);
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

}  // namespace heed
