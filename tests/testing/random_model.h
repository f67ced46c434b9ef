// Native models with seeded random weights, for tests and benchmarks: every tensor that a configuration's
// model asks for, no file.
#ifndef HEED_TESTS_TESTING_RANDOM_MODEL_H_
#define HEED_TESTS_TESTING_RANDOM_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/models/model.h"
#include "engine/weights/weights.h"

namespace heed {

// What a native configuration's model asks for: attention and feed-forwards of any listed type. The key
// `attention_bias` says whether products have biases; embeddings are tied; the tensors of global tokens are
// there if the configuration speaks of such tokens.
std::unique_ptr<Weights> RandomWeightsFor(const Json& config, uint64_t seed = 1);

// All of them, by name. They own their memory.
std::map<std::string, Tensor> RandomTensorsOf(const Json& config);

struct RandomModel {
  std::unique_ptr<const Model> model;
  const Model* operator->() const { return model.get(); }
  const Model& operator*() const { return *model; }
};

// INVALID_ARGUMENT and why, where this build cannot serve the configuration; MakeRandomModel CHECKs that it
// can.
absl::StatusOr<RandomModel> TryRandomModel(const Json& config, Precision precision = Precision::kF32,
                                           uint64_t seed = 1);
RandomModel MakeRandomModel(const Json& config, Precision precision = Precision::kF32, uint64_t seed = 1);

// A small configuration to start from: {"architecture": "decoder", "layers": 2 x `attention`, width 32, 4
// heads, ...}; of an encoder-decoder as many decoder_layers, `attention` as cross-attention too, and start
// token 1.
Json SmallConfig(const std::string& architecture, const std::string& head,
                 const Json& attention = {{"type", "full"}});

}  // namespace heed

#endif  // HEED_TESTS_TESTING_RANDOM_MODEL_H_
