// "granite" (IBM 2024): Llama's layers, with multipliers of the embedding, of scores (attention_multiplier,
// in place of the root of head_dim), of what sublayers add, and a divisor of the logits. "hyperclovax" (NAVER
// 2025): with use_post_norm also norms after the sublayers, post_norm1 and post_norm2. "granitemoe": experts
// in every layer, each kind of product of all in one tensor; the chosen ones share a softmax.
// "granitemoehybrid" (Granite 4, 2025): most layers a second Mamba's mixer, mamba.{in_proj, conv1d, dt_bias,
// A_log, D, norm, out_proj}; attention is turned with position_embedding_type "rope" alone; shared_mlp, an
// expert for all rows, stands alone where num_local_experts is 0.
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/llama.h"
#include "engine/families/mamba.h"
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

Json ReadExperts(JsonFields& fields) {
  return {{"type", "moe"},
          {"experts", Size(fields, "num_local_experts", 8)},
          {"top_k", Size(fields, "num_experts_per_tok", 2)},
          {"score", "chosen_softmax"}};
}

void SetExperts(int64_t i, const Json& experts, Decoder& decoder) {
  decoder.layer(i)["ffn"] = experts;
  const std::string of = Cat(decoder.layer_prefix, i, ".block_sparse_moe."), to = Cat("layers.", i, ".ffn.");
  decoder.tensors().AddModule(to + "router", of + "router.layer");
  const auto count = experts["experts"].get<int64_t>();
  for (int64_t e = 0; e < count; ++e) {
    const std::string expert = Cat(to, "experts.", e, ".");
    decoder.tensors().Add(expert + "gate.weight", OfExpert(of + "input_linear.weight", e, {1, 1}, 0));
    decoder.tensors().Add(expert + "up.weight", OfExpert(of + "input_linear.weight", e, {1, 1}, 1));
    decoder.tensors().Add(expert + "down.weight", OfExpert(of + "output_linear.weight", e, {1}, 0));
  }
}

// Which layers are mixers. transformers 5 has other names for the kinds.
std::vector<bool> MixerLayers(JsonFields& fields, int64_t layers) {
  const Json& types = fields.Raw("layer_types");
  std::vector<bool> mixers(layers, true);
  if (types.is_null()) return mixers;
  if (!types.is_array() || std::ssize(types) != layers) {
    fields.Fail(Cat("layer_types: ", Shown(types), " is no list of ", layers, " layers"));
    return mixers;
  }
  for (int64_t i = 0; i < layers; ++i) {
    mixers[i] = types[i] == "mamba" || types[i] == "linear_attention";
    if (!mixers[i] && types[i] != "attention" && types[i] != "full_attention") {
      fields.Fail(Cat("layer_types[", i, "]: ", Shown(types[i]),
                      " is not served; mamba (linear_attention) and attention (full_attention) are"));
    }
  }
  return mixers;
}

// shared_mlp.{input_linear, output_linear}: beside the experts, or alone.
void AddShared(const std::string& name, Decoder& decoder) {
  for (const int part : {0, 1}) {
    decoder.AddModules(name + (part == 0 ? "gate" : "up"), "shared_mlp.input_linear",
                       [&](const ViewedTensor& both) { return both.PartOfGroups(1, {1, 1}, part); });
  }
  decoder.AddModules(name + "down", "shared_mlp.output_linear");
}

}  // namespace

absl::StatusOr<NativeModel> ReadGraniteFamily(Checkpoint& checkpoint) {
  return WithHead(checkpoint, ReadGranite(checkpoint, {.tokens = {.bos = 1, .eos = 2}}));
}

absl::StatusOr<NativeModel> ReadGraniteMoeFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGranite(checkpoint, {.tokens = {.bos = 1, .eos = 2}});
  const Json experts = ReadExperts(checkpoint.fields());
  for (int64_t i = 0; i < decoder.layers; ++i) SetExperts(i, experts, decoder);
  return WithHead(checkpoint, std::move(decoder));
}

absl::StatusOr<NativeModel> ReadGraniteMoeHybridFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGranite(checkpoint, {.tokens = {.bos = 1, .eos = 2, .pad = 0}});
  JsonFields& fields = checkpoint.fields();
  const std::vector<bool> mixers = MixerLayers(fields, decoder.layers);
  const Json mixer = ReadMamba2Layer(checkpoint, decoder);
  const bool turned = fields.String("position_embedding_type", "") == "rope",
             sparse = fields.Int("num_local_experts", 8, 0, kMostSize) > 0;
  const int64_t shared = Size(fields, "shared_intermediate_size", 1024);
  Json experts;
  if (sparse) {
    experts = ReadExperts(fields);
    experts["shared_size"] = shared;
  } else {
    decoder.config()["intermediate_size"] = shared;
  }
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!turned) decoder.attention(i).erase("rope");
    if (mixers[i]) SetMixer(i, mixer, "mamba", decoder);
    if (sparse) SetExperts(i, experts, decoder);
  }
  AddShared(sparse ? "ffn.shared." : "ffn.", decoder);
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
