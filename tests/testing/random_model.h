// Native models with seeded random weights, for tests and benchmarks: every shape that a configuration asks
// for, no file.
#ifndef HEED_TESTS_TESTING_RANDOM_MODEL_H_
#define HEED_TESTS_TESTING_RANDOM_MODEL_H_

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/models/model.h"

namespace heed {

// Named tensors with their memory.
struct RandomWeights {
  std::list<Buffer> memory;
  std::map<std::string, Tensor> tensors;
};

// The tensors of a native configuration (attention and feed-forwards of any listed type), f32, scaled so that
// activations neither vanish nor explode. `attention_bias` says whether products have biases.
RandomWeights MakeRandomWeights(const Json& config, uint64_t seed = 1);

// The model and the memory that it reads its embeddings from.
struct RandomModel {
  RandomWeights weights;
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
