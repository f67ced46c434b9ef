// "granite" (IBM 2024): Llama's layers, with multipliers of the embedding, of scores (attention_multiplier,
// in place of the root of head_dim), of what sublayers add, and a divisor of the logits. "hyperclovax" (NAVER
// 2025): with use_post_norm also norms after the sublayers, post_norm1 and post_norm2. "granitemoe": experts
// in every layer, each kind of product of all in one tensor; the chosen ones share a softmax.
#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr double kLeast = 1e-6, kMost = 1e6;

Decoder ReadGranite(Checkpoint& checkpoint, const LlamaDefaults& defaults) {
  Decoder decoder = ReadLlamaDecoder(checkpoint, defaults);
  JsonFields& fields = checkpoint.fields();
  Json& config = decoder.config();
  config["embedding_scale"] = fields.Number("embedding_multiplier", 1, kLeast, kMost);
  config["residual_multiplier"] = fields.Number("residual_multiplier", 1, kLeast, kMost);
  decoder.SetAttention("scale", fields.Number("attention_multiplier", 1, kLeast, kMost));
  const double divisor = fields.Number("logits_scaling", 1, kLeast, kMost);
  if (checkpoint.task() == "CausalLM") config["logits_scale"] = 1 / divisor;
  return decoder;
}

}  // namespace

absl::StatusOr<NativeModel> ReadGraniteFamily(Checkpoint& checkpoint) {
  return WithHead(checkpoint, ReadGranite(checkpoint, {.tokens = {.bos = 1, .eos = 2}}));
}

absl::StatusOr<NativeModel> ReadGraniteMoeFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGranite(checkpoint, {.tokens = {.bos = 1, .eos = 2}});
  JsonFields& fields = checkpoint.fields();
  const int64_t experts = Size(fields, "num_local_experts", 8);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    decoder.layer(i)["ffn"] = {{"type", "moe"},
                               {"experts", experts},
                               {"top_k", Size(fields, "num_experts_per_tok", 2)},
                               {"score", "chosen_softmax"}};
    const std::string of = Cat(decoder.layer_prefix, i, ".block_sparse_moe."),
                      to = Cat("layers.", i, ".ffn.");
    decoder.tensors().AddModule(to + "router", of + "router.layer");
    for (int64_t e = 0; e < experts; ++e) {
      const std::string expert = Cat(to, "experts.", e, ".");
      decoder.tensors().Add(expert + "gate.weight", OfExpert(of + "input_linear.weight", e, {1, 1}, 0));
      decoder.tensors().Add(expert + "up.weight", OfExpert(of + "input_linear.weight", e, {1, 1}, 1));
      decoder.tensors().Add(expert + "down.weight", OfExpert(of + "output_linear.weight", e, {1}, 0));
    }
  }
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadHyperclovaxFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGranite(checkpoint, {.tokens = {.bos = 1, .eos = 2}});
  if (checkpoint.fields().Bool("use_post_norm", false)) {
    decoder.config()["norm"] = "sandwich";
    decoder.AddModules("norm1_post", "post_norm1");
    decoder.AddModules("norm2_post", "post_norm2");
  }
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
