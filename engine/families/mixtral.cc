// "mixtral" (Jiang et al. 2024): Llama's layers, each with experts, block_sparse_moe.{gate, experts.E.{w1,
// w3, w2}}; sliding_window holds for all layers.
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {

absl::StatusOr<NativeModel> ReadMixtralFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.intermediate_size = 14336,
                                                  .num_key_value_heads = 8,
                                                  .tokens = {.bos = 1, .eos = 2},
                                                  .eps = 1e-5,
                                                  .rope = {.theta = 1e6}});
  JsonFields& fields = checkpoint.fields();
  SetWindows(std::vector<bool>(decoder.layers, true), WindowOf(checkpoint, 0), decoder);
  Mixture mixture{.options = {{"experts", Size(fields, "num_local_experts", 8)},
                              {"top_k", Size(fields, "num_experts_per_tok", 2)},
                              {"normalize", true}},
                  .gate = "w1",
                  .up = "w3",
                  .down = "w2"};
  for (int64_t i = 0; i < decoder.layers; ++i) {
    mixture.module = checkpoint.Has(decoder.layer_prefix + "0.mlp.gate.weight") ? "mlp" : "block_sparse_moe";
    SetMixture(checkpoint, i, mixture, decoder);
  }
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
