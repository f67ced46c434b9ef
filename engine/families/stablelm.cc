// "stablelm" (Bellagente et al. 2024): Llama's names, layer norms, a quarter of each head turned. With
// use_parallel_residual attention and feed-forward stand beside one another, both of one norm; with
// qk_layernorm each head has norms of its own, q_layernorm.norms.H.
#include "engine/base/status.h"
#include "engine/families/llama.h"

namespace heed {
namespace {

// The weights of the heads' norms side by side.
ViewedTensor HeadNorms(const std::string& module, int64_t heads) {
  std::vector<ViewedTensor> parts;
  for (int64_t head = 0; head < heads; ++head) {
    parts.push_back(ViewedTensor(Cat(module, ".norms.", head, ".weight")).Shaped({1, -1}));
  }
  return ViewedTensor::Joined(parts);
}

}  // namespace

absl::StatusOr<NativeModel> ReadStablelmFamily(Checkpoint& checkpoint) {
  JsonFields& fields = checkpoint.fields();
  Decoder decoder = ReadLlamaDecoder(checkpoint, {.vocab_size = 50304,
                                                  .hidden_size = 2560,
                                                  .intermediate_size = 6912,
                                                  .num_key_value_heads = 32,
                                                  .tokens = {.bos = 0, .eos = 0},
                                                  .norm_type = "layer",
                                                  .eps_key = "layer_norm_eps",
                                                  .eps = 1e-5,
                                                  .rope = {.share = 0.25}});
  if (fields.Bool("use_parallel_residual", false)) decoder.SetParallel("input_layernorm");
  if (fields.Bool("qk_layernorm", false)) {
    decoder.SetAttention("qk_norm", {{"type", "layer"}, {"over", "head"}, {"per_head", true}});
    for (int64_t i = 0; i < decoder.layers; ++i) {
      const std::string of = Cat(decoder.layer_prefix, i, ".self_attn."),
                        to = Cat("layers.", i, ".attention.");
      decoder.tensors().Add(to + "q_norm.weight", HeadNorms(of + "q_layernorm", decoder.heads));
      decoder.tensors().Add(to + "k_norm.weight", HeadNorms(of + "k_layernorm", decoder.key_value_heads));
    }
  }
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
