// Weights that are invented as they are asked for: whoever loads a layer or a model says names, shapes and
// kinds, so nobody else has to know them. A tensor's numbers follow from its name, its shape and a seed.
#ifndef HEED_TESTS_TESTING_RANDOM_WEIGHTS_H_
#define HEED_TESTS_TESTING_RANDOM_WEIGHTS_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "absl/log/check.h"
#include "engine/weights/weights.h"

namespace heed {

// xorshift64* (Vigna 2016).
class RandomNumbers {
 public:
  RandomNumbers(const std::string& name, uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {
    for (unsigned char c : name) state_ = (state_ ^ c) * 0x100000001B3u;
    state_ |= 1;
    for (int i = 0; i < 4; ++i) Bits();
  }
  uint64_t Bits() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 0x2545F4914F6CDD1Du) >> 11;
  }
  // Uniform with mean 0 and variance 1.
  double Next() { return (static_cast<double>(Bits()) / 9007199254740992.0 - 0.5) * std::sqrt(12.0); }

 private:
  uint64_t state_;
};

// Such that activations neither vanish nor explode.
struct RandomScale {
  double mean = 0, deviation = 1;
};
inline RandomScale ScaleOf(const WantedTensor& wanted) {
  const std::vector<int64_t>& shape = wanted.shape;
  const bool weight = wanted.name.ends_with("weight");
  if (wanted.name.ends_with("bias")) return {.deviation = 0.1};
  if (shape.size() == 1 && weight) return {.mean = 1, .deviation = 0.1};  // gains
  if (weight && !wanted.name.ends_with("embed.tokens.weight") &&
      !wanted.name.ends_with("embed.positions.weight")) {
    // What a number of the result is a sum of: of [out, in, taps], and of a matrix for each head.
    const bool heads = shape.size() == 3 && shape[0] != shape[1];
    double terms = 1;
    for (size_t d = heads ? 2 : 1; d < shape.size(); ++d) terms *= static_cast<double>(shape[d]);
    return {.deviation = 1 / std::sqrt(terms)};
  }
  if (weight) return {};
  // Rows of a table, which scores are products with.
  return {.deviation = std::min(1.0, 4 / std::sqrt(static_cast<double>(shape.back())))};
}

inline Tensor RandomTensor(const WantedTensor& wanted, uint64_t seed) {
  constexpr int64_t kAnySize = 9;  // where whoever asks takes any
  Tensor tensor{wanted.integers ? DType::kI64 : DType::kF32, wanted.shape};
  std::ranges::replace_if(tensor.shape, [](int64_t size) { return size < 0; }, kAnySize);
  const auto memory = std::make_shared<Buffer>(std::max<int64_t>(1, tensor.size()) * SizeOf(tensor.dtype));
  RandomNumbers random(wanted.name, seed);
  const RandomScale scale = ScaleOf({wanted.name, tensor.shape});
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (const auto& range = wanted.integers) {
      const auto count = static_cast<uint64_t>(range->max - range->min + 1);
      memory->as<int64_t>()[i] = range->min + static_cast<int64_t>(random.Bits() % count);
    } else {
      memory->as<float>()[i] = static_cast<float>(scale.mean + scale.deviation * random.Next());
    }
  }
  tensor.data = memory->as<char>();
  tensor.memory = memory;
  return tensor;
}

// `has` says which of the tensors that a model may do without there are.
inline std::unique_ptr<Weights> NewRandomWeights(std::function<bool(const std::string& name)> has,
                                                 uint64_t seed = 1) {
  return Weights::MadeBy({.has = std::move(has),
                          .make = [seed](const WantedTensor& wanted) { return RandomTensor(wanted, seed); }});
}

}  // namespace heed

#endif  // HEED_TESTS_TESTING_RANDOM_WEIGHTS_H_
