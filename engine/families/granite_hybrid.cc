// "granitemoehybrid" (Granite 4, IBM 2025): Granite's layers, most of them a second Mamba's mixer,
// mamba.{in_proj, conv1d, dt_bias, A_log, D, norm, out_proj}; attention is turned with
// position_embedding_type "rope" alone; shared_mlp, an expert for all rows, stands alone where
// num_local_experts is 0.
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/granite.h"
#include "engine/families/mamba.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr int64_t kShared = 1024;  // shared_intermediate_size where it is not given

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

// shared_mlp without experts beside it: a gated feed-forward whose first two products are one tensor.
void SetDense(JsonFields& fields, Decoder& decoder) {
  decoder.config()["intermediate_size"] = Size(fields, "shared_intermediate_size", kShared);
  for (const int part : {0, 1}) {
    decoder.AddModules(part == 0 ? "ffn.gate" : "ffn.up", "shared_mlp.input_linear",
                       [&](const ViewedTensor& both) { return both.PartOfGroups(1, {1, 1}, part); });
  }
  decoder.AddModules("ffn.down", "shared_mlp.output_linear");
}

}  // namespace

absl::StatusOr<NativeModel> ReadGraniteMoeHybridFamily(Checkpoint& checkpoint) {
  Decoder decoder = ReadGranite(checkpoint, {.tokens = {.bos = 1, .eos = 2, .pad = 0}});
  JsonFields& fields = checkpoint.fields();
  const std::vector<bool> mixers = MixerLayers(fields, decoder.layers);
  const Json mixer = ReadMamba2Layer(checkpoint, decoder);
  const bool turned = fields.String("position_embedding_type", "") == "rope";
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (!turned) decoder.attention(i).erase("rope");
    if (mixers[i]) SetMixer(i, mixer, "mamba", decoder);
  }
  if (fields.Int("num_local_experts", 8, 0, kMostSize) > 0) {
    SetGraniteExperts(checkpoint, {}, decoder);
    SetGraniteSharedExpert(checkpoint, kShared, decoder);
  } else {
    SetDense(fields, decoder);
  }
  return WithHead(checkpoint, std::move(decoder));
}

}  // namespace heed
