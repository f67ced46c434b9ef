// "granite" (IBM 2024): Llama's layers, with multipliers of the embedding, of scores (attention_multiplier,
// in place of the root of head_dim), of what sublayers add, and a divisor of the logits. "hyperclovax" (NAVER
// 2025): with use_post_norm also norms after the sublayers, post_norm1 and post_norm2; logits_scaling is a
// multiplier. "granitemoe": experts in every layer, each kind of product of all in one tensor; the chosen
// ones share a softmax. "granite_swa" (2026): windows in three of four layers, a learned sink a head (sinks),
// and for each layer a rotation of its own (layer_rope_theta; 0: none). "granitemoe_swa": with experts, and
// one for all rows (shared_mlp).
#include "engine/families/granite.h"

#include <cmath>
#include <string>

#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mixture.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr double kLeast = 1e-6, kMost = 1e6, kMostTheta = 1e12;

}  // namespace

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

void SetGraniteExperts(Checkpoint& checkpoint, const GraniteExperts& names, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const int64_t experts = Size(fields, "num_local_experts", 8);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    decoder.layer(i)["ffn"] = {{"type", "moe"},
                               {"experts", experts},
                               {"top_k", Size(fields, "num_experts_per_tok", 2)},
                               {"score", "chosen_softmax"}};
    const std::string of = Cat(decoder.layer_prefix, i, ".block_sparse_moe."),
                      to = Cat("layers.", i, ".ffn.");
    decoder.tensors().AddModule(to + "router", of + names.router);
    for (int64_t e = 0; e < experts; ++e) {
      const std::string expert = Cat(to, "experts.", e, ".");
      decoder.tensors().Add(expert + "gate.weight", OfExpert(of + names.input, e, {1, 1}, 0));
      decoder.tensors().Add(expert + "up.weight", OfExpert(of + names.input, e, {1, 1}, 1));
      decoder.tensors().Add(expert + "down.weight", OfExpert(of + names.output, e, {1}, 0));
    }
  }
}

void SetGraniteSharedExpert(Checkpoint& checkpoint, int64_t fallback, Decoder& decoder) {
  const int64_t size = checkpoint.fields().Int("shared_intermediate_size", fallback, 0, kMostSize);
  if (size == 0) return;
  for (int64_t i = 0; i < decoder.layers; ++i) decoder.layer(i)["ffn"]["shared_size"] = size;
  const auto half = [](int part) {
    return [part](const ViewedTensor& fused) { return fused.PartOfGroups(1, {1, 1}, part); };
  };
  decoder.AddModules("ffn.shared.gate", "shared_mlp.input_linear", half(0));
  decoder.AddModules("ffn.shared.up", "shared_mlp.input_linear", half(1));
  decoder.AddModules("ffn.shared.down", "shared_mlp.output_linear");
}

namespace {

// Each layer turns by a theta of its own.
void SetThetas(Checkpoint& checkpoint, Decoder& decoder) {
  JsonFields& fields = checkpoint.fields();
  const Json& thetas = fields.Raw("layer_rope_theta");
  if (thetas.is_null()) return;
  if (!thetas.is_array() || std::ssize(thetas) != decoder.layers)
    return fields.Fail(Cat("layer_rope_theta: no list of ", decoder.layers, " numbers, one a layer"));
  for (int64_t i = 0; i < decoder.layers; ++i) {
    const double theta = thetas[i].is_number() ? thetas[i].get<double>() : -1;
    if (theta == 0) {
      decoder.attention(i).erase("rope");
    } else if (theta >= 1 && theta <= kMostTheta) {
      decoder.attention(i)["rope"]["theta"] = theta;
    } else {
      fields.Fail(
          Cat("layer_rope_theta[", i, "]: ", Shown(thetas[i]), " is neither 0 nor 1 .. ", kMostTheta));
    }
  }
}

Decoder ReadGraniteSwa(Checkpoint& checkpoint) {
  Decoder decoder = ReadGranite(checkpoint, {.vocab_size = 100352,
                                             .hidden_size = 2560,
                                             .intermediate_size = 8192,
                                             .num_hidden_layers = 24,
                                             .num_attention_heads = 20,
                                             .num_key_value_heads = 4,
                                             .tokens = {.bos = 100257, .eos = 100257},
                                             .eps = 1e-5});
  SetThetas(checkpoint, decoder);
  SetWindows(SlidingLayers(checkpoint, decoder.layers, [](int64_t i) { return i % 4 != 0; }),
             WindowOf(checkpoint, 128), decoder);
  AddLearnedSinks(decoder);
  return decoder;
}

}  // namespace

absl::StatusOr<NativeModel> ReadGraniteFamily(Checkpoint& checkpoint) {
  return WithHead(checkpoint, ReadGranite(checkpoint, {.tokens = {.bos = 1, .eos = 2}}));
}

absl::StatusOr<NativeModel> ReadGraniteMoeFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGranite(checkpoint, {.tokens = {.bos = 1, .eos = 2}});
  SetGraniteExperts(checkpoint, {"router.layer", "input_linear.weight", "output_linear.weight"}, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadGraniteSwaFamily(Checkpoint& checkpoint) {
  return WithHead(checkpoint, ReadGraniteSwa(checkpoint), {.tied = true});
}

absl::StatusOr<NativeModel> ReadGraniteMoeSwaFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGraniteSwa(checkpoint);
  SetGraniteExperts(checkpoint, {"router", "experts.gate_up_proj", "experts.down_proj"}, decoder);
  SetGraniteSharedExpert(checkpoint, 0, decoder);
  return WithHead(checkpoint, std::move(decoder), {.tied = true});
}

absl::StatusOr<NativeModel> ReadHyperclovaxFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGranite(checkpoint, {.tokens = {.bos = 1, .eos = 2}});
  JsonFields& fields = checkpoint.fields();
  if (!fields.Has("attention_multiplier"))
    decoder.SetAttention("scale", 1 / std::sqrt(static_cast<double>(decoder.head_dim)));
  if (checkpoint.task() == "CausalLM")
    decoder.config()["logits_scale"] = fields.Number("logits_scaling", 1, kLeast, kMost);
  if (fields.Bool("use_post_norm", true)) {
    decoder.config()["norm"] = "sandwich";
    decoder.AddModules("norm1_post", "post_norm1");
    decoder.AddModules("norm2_post", "post_norm2");
  }
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
