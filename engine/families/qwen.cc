// "qwen2" (Qwen team 2024): Llama's layers, biases of queries, keys and values; with use_sliding_window the
// layers from max_window_layers on see a window. "qwen3" (2025): also a norm of each head's queries and keys.
#include "engine/families/llama.h"

namespace heed {
namespace {

Decoder ReadQwen(Checkpoint& checkpoint, int64_t head_dim) {
  Decoder decoder = ReadLlamaDecoder(
      checkpoint,
      {.vocab_size = 151936, .intermediate_size = 22016, .num_key_value_heads = 32, .head_dim = head_dim});
  JsonFields& fields = checkpoint.fields();
  const int64_t window = fields.Bool("use_sliding_window", false) ? WindowOf(checkpoint, 4096) : 0;
  const int64_t first = fields.Int("max_window_layers", 28, 0, int64_t{1} << 30);
  SetWindows(SlidingLayers(checkpoint, decoder.layers, [&](int64_t i) { return i >= first; }), window,
             decoder);
  return decoder;
}

}  // namespace

absl::StatusOr<NativeModel> ReadQwen2Family(Checkpoint& checkpoint) {
  return WithHead(checkpoint, ReadQwen(checkpoint, 0));
}

absl::StatusOr<NativeModel> ReadQwen3Family(Checkpoint& checkpoint) {
  Decoder decoder = ReadQwen(checkpoint, 128);
  AddQueryKeyNorms({{"type", "rms"}, {"over", "head"}}, "self_attn.q_norm", "self_attn.k_norm", decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
