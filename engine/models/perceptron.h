// A multilayer perceptron as a model's head: y = mlp.L act(... act(mlp.0 x)).
#ifndef HEED_ENGINE_MODELS_PERCEPTRON_H_
#define HEED_ENGINE_MODELS_PERCEPTRON_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/models/transformer.h"
#include "engine/weights/weights.h"

namespace heed {

struct Perceptron {
  std::vector<int64_t> sizes;  // of the hidden layers
  Activation act = Activation::kRelu;
};

// Key `mlp`: {"sizes" (may be empty), "act" ("relu" | "selu" | "gelu")}.
Perceptron ReadPerceptron(JsonFields& fields);

// Tensors: scope/mlp.I.weight, and .bias where present. The last layer, whose results are scores, is f32.
absl::StatusOr<OutputHead> LoadPerceptron(const Perceptron& perceptron, int64_t in, int64_t out,
                                          const WeightScope& scope, Precision precision);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_PERCEPTRON_H_
