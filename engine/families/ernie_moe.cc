// "ernie4_5_moe" (Baidu 2025): ERNIE 4.5's layers; those from moe_layer_start_index to moe_layer_end_index,
// every moe_layer_interval-th, have experts, chosen by their softmax and a correction, and experts for all
// rows, which lie in one.
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadErnie45MoeFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 103424,
                                                  .hidden_size = 2560,
                                                  .intermediate_size = 12288,
                                                  .num_hidden_layers = 28,
                                                  .num_attention_heads = 20,
                                                  .num_key_value_heads = 4,
                                                  .tokens = {.bos = 1, .eos = 2, .pad = 0},
                                                  .eps = 1e-5,
                                                  .rope = {.theta = 500000, .interleaved = true}});
  JsonFields& fields = checkpoint.fields();
  const int64_t hidden = Size(fields, "moe_intermediate_size", 1536),
                shared = fields.Int("moe_num_shared_experts", 2, 0, kMostLayers);
  const Mixture mixture{.options = {{"experts", Size(fields, "moe_num_experts", 64)},
                                    {"top_k", Size(fields, "moe_k", 6)},
                                    {"intermediate_size", hidden},
                                    {"normalize", true},
                                    {"shared_size", hidden * shared}},
                        .correction = "moe_statics.e_score_correction_bias",
                        .shared = shared > 0 ? "shared_experts" : ""};
  const int64_t first = fields.Int("moe_layer_start_index", 1, 0, kMostLayers),
                last = fields.Int("moe_layer_end_index", -1, -1, kMostLayers),
                step = fields.Int("moe_layer_interval", 1, 1, kMostLayers);
  for (int64_t i = first; i < decoder.layers && (last < 0 || i <= last); ++i) {
    if ((i + 1) % step == 0) SetMixture(checkpoint, i, mixture, decoder);
  }
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

}  // namespace heed
