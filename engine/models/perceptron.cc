#include "engine/models/perceptron.h"

#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/models/layers.h"

namespace heed {
namespace {

constexpr int64_t kMaxLayers = 64;
constexpr int64_t kMaxWidth = 1 << 20;

}  // namespace

Perceptron ReadPerceptron(JsonFields& fields) {
  Perceptron perceptron;
  JsonFields own(fields.Raw("mlp"), fields.Name("mlp"));
  if (!own.Has("sizes")) own.Fail("sizes is missing");
  perceptron.sizes = own.Ints("sizes", 0, kMaxLayers, 1, kMaxWidth);
  const std::string act = own.Choice("act", {"relu", "selu", "gelu"});
  perceptron.act = act == "relu" ? Activation::kRelu : act == "selu" ? Activation::kSelu : Activation::kGelu;
  fields.Fail(own.Finish());
  return perceptron;
}

absl::StatusOr<OutputHead> LoadPerceptron(const Perceptron& perceptron, int64_t in, int64_t out,
                                          const WeightScope& scope, Precision precision) {
  OutputHead head;
  std::vector<int64_t> sizes = perceptron.sizes;
  sizes.push_back(out);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool last = i + 1 == sizes.size();
    ASSIGN_OR_RETURN(PackedWeights weights,
                     LoadWeights(scope, Cat("mlp.", i), sizes[i], in, last ? Precision::kF32 : precision));
    head.layers.push_back(
        {.weights = std::move(weights), .activation = last ? Activation::kNone : perceptron.act});
    in = sizes[i];
  }
  return head;
}

}  // namespace heed
