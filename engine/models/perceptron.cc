#include "engine/models/perceptron.h"

#include <string>

#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMaxLayers = 64;
constexpr int64_t kMaxWidth = 1 << 20;

}  // namespace

Perceptron ReadPerceptron(JsonFields& fields) {
  Perceptron perceptron;
  JsonFields own(fields.Raw("mlp"), "mlp");
  if (!own.Has("sizes")) own.Fail("sizes is missing");
  perceptron.sizes = own.Ints("sizes", 0, kMaxLayers, 1, kMaxWidth);
  const std::string act = own.Choice("act", {"relu", "selu", "gelu"});
  perceptron.act = act == "relu" ? Activation::kRelu : act == "selu" ? Activation::kSelu : Activation::kGelu;
  if (absl::Status status = own.Finish(); !status.ok()) fields.Fail(std::string(status.message()));
  return perceptron;
}

absl::StatusOr<OutputHead> LoadPerceptron(const Perceptron& perceptron, int64_t in, int64_t out,
                                          const WeightScope& scope, Precision precision) {
  OutputHead head;
  head.between = perceptron.act;
  std::vector<int64_t> sizes = perceptron.sizes;
  sizes.push_back(out);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const WeightScope layer = scope / Cat("mlp.", i);
    PackedWeights::Part part;
    ASSIGN_OR_RETURN(part.weight, layer.Get("weight", {sizes[i], in}));
    ASSIGN_OR_RETURN(part.bias, layer.Optional("bias", {sizes[i]}));
    const bool last = i + 1 == sizes.size();
    head.layers.push_back(PackedWeights::Pack({part}, last ? Precision::kF32 : precision));
    in = sizes[i];
  }
  return head;
}

}  // namespace heed
