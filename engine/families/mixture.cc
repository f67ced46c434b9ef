#include "engine/families/mixture.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

void AddExperts(Checkpoint& checkpoint, const std::string& of, const std::string& to, const Mixture& mixture,
                TensorView& tensors) {
  const auto experts = mixture.options["experts"].get<int64_t>();
  const std::string fused = of + "experts.gate_up_proj", down = of + "experts.down_proj";
  const bool together = checkpoint.Has(fused);
  for (int64_t e = 0; e < experts; ++e) {
    const std::string expert = Cat(to, "experts.", e, "."), file = Cat(of, "experts.", e, ".");
    if (together) {
      tensors.Add(expert + "gate.weight", OfExpert(fused, e, {1, 1}, 0));
      tensors.Add(expert + "up.weight", OfExpert(fused, e, {1, 1}, 1));
      tensors.Add(expert + "down.weight", OfExpert(down, e, {1}, 0));
      continue;
    }
    tensors.AddModule(expert + "gate", file + mixture.gate);
    tensors.AddModule(expert + "up", file + mixture.up);
    tensors.AddModule(expert + "down", file + mixture.down);
  }
}

}  // namespace

ViewedTensor OfExpert(const std::string& tensor, int64_t expert, const std::vector<int64_t>& sizes,
                      int part) {
  return ViewedTensor(tensor).MatrixOf(expert).PartOfGroups(1, sizes, part);
}

void SetMixture(Checkpoint& checkpoint, int64_t i, const Mixture& mixture, Decoder& decoder) {
  const std::string of = Cat(decoder.layer_prefix, mixture.number.value_or(i), ".", mixture.module, "."),
                    to = Cat("layers.", i, ".ffn.");
  Json options = mixture.options;
  options["type"] = "moe";
  TensorView& tensors = decoder.tensors();
  tensors.AddModule(to + "router", of + mixture.router);
  if (!mixture.correction.empty()) {
    options["correction"] = true;
    tensors.Add(to + "router.correction", ViewedTensor(of + mixture.correction).Shaped({-1}));
  }
  if (!mixture.shared.empty()) {
    tensors.AddModule(to + "shared.gate", of + mixture.shared + "." + mixture.gate);
    tensors.AddModule(to + "shared.up", of + mixture.shared + "." + mixture.up);
    tensors.AddModule(to + "shared.down", of + mixture.shared + "." + mixture.down);
  }
  if (!mixture.shared_gate.empty()) {
    options["shared_gate"] = true;
    tensors.AddModule(to + "shared_gate", of + mixture.shared_gate);
  }
  AddExperts(checkpoint, of, to, mixture, tensors);
  decoder.layer(i)["ffn"] = std::move(options);
}

std::vector<bool> SparseLayers(Checkpoint& checkpoint, int64_t layers) {
  JsonFields& fields = checkpoint.fields();
  const int64_t step = fields.Int("decoder_sparse_step", 1, 1, kMostLayers);
  const std::vector<int64_t> dense = fields.Ints("mlp_only_layers", 0, kMostLayers, 0, kMostLayers);
  std::vector<bool> sparse(layers);
  for (int64_t i = 0; i < layers; ++i) sparse[i] = (i + 1) % step == 0 && std::ranges::count(dense, i) == 0;
  return sparse;
}

std::vector<bool> LayersWithExperts(Checkpoint& checkpoint, int64_t layers, int64_t dense,
                                    std::string_view key) {
  JsonFields& fields = checkpoint.fields();
  const Json& types = fields.Raw("mlp_layer_types");
  dense = fields.Int(key, dense, 0, kMostLayers);
  if (types.is_array() && std::ssize(types) != layers)
    fields.Fail(Cat("mlp_layer_types: ", types.size(), " of ", layers, " layers"));
  std::vector<bool> sparse(layers);
  for (int64_t i = 0; i < layers; ++i)
    sparse[i] = types.is_array() && i < std::ssize(types) ? types[i] == "sparse" : i >= dense;
  return sparse;
}

void SetMixtures(Checkpoint& checkpoint, const std::vector<bool>& sparse, const Mixture& mixture,
                 Decoder& decoder) {
  for (int64_t i = 0; i < decoder.layers; ++i) {
    if (sparse[i]) SetMixture(checkpoint, i, mixture, decoder);
  }
}

}  // namespace heed
