// "mixtral" (Jiang et al. 2024): Llama's layers, each with experts, block_sparse_moe.{gate, experts.E.{w1,
// w3, w2}}; sliding_window holds for all layers. "phimoe" (Phi-3.5-MoE, Abdin et al. 2024): layer norms,
// biases, a sparse mixer; its longrope is served within the original length.
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

absl::StatusOr<NativeModel> ReadPhimoeFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 32064,
                                                  .intermediate_size = 6400,
                                                  .num_key_value_heads = 8,
                                                  .tokens = {.bos = 1, .eos = 2},
                                                  .norm_type = "layer",
                                                  .eps = 1e-5,
                                                  .rope = {.theta = 1e6}});
  JsonFields& fields = checkpoint.fields();
  SetWindows(std::vector<bool>(decoder.layers, true), WindowOf(checkpoint, 0), decoder);
  const bool renamed = checkpoint.Has(decoder.layer_prefix + "0.mlp.router.weight");
  const Mixture mixture{.options = {{"experts", Size(fields, "num_local_experts", 16)},
                                    {"top_k", Size(fields, "num_experts_per_tok", 2)},
                                    {"score", "sparse_mixer"},
                                    {"jitter", fields.Number("router_jitter_noise", 0.01, 0, 1)}},
                        .module = renamed ? "mlp" : "block_sparse_moe",
                        .router = renamed ? "router" : "gate",
                        .gate = "w1",
                        .up = "w3",
                        .down = "w2"};
  for (int64_t i = 0; i < decoder.layers; ++i) SetMixture(checkpoint, i, mixture, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
