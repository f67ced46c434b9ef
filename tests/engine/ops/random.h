// Numbers for tests, the same on every machine, and views of them as rows.
#ifndef HEED_TESTS_ENGINE_OPS_RANDOM_H_
#define HEED_TESTS_ENGINE_OPS_RANDOM_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/tensor/tensor.h"

namespace heed {

// Roughly normal, by a linear congruence.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  float Uniform() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(state_ >> 40) / (1 << 24);
  }
  float Normal() { return (Uniform() + Uniform() + Uniform() + Uniform() - 2) * std::sqrt(3.0f); }
  std::vector<float> Normals(int64_t n, float scale = 1) {
    std::vector<float> numbers(n);
    for (float& x : numbers) x = scale * Normal();
    return numbers;
  }

 private:
  uint64_t state_;
};

inline std::vector<Bf16> ToBf16s(const std::vector<float>& numbers) {
  std::vector<Bf16> out;
  for (float x : numbers) out.push_back(ToBf16(x));
  return out;
}

inline Rows View(std::vector<float>& numbers, int64_t rows) {
  const auto cols = static_cast<int64_t>(numbers.size()) / rows;
  return {DType::kF32, numbers.data(), rows, cols, cols};
}
inline Rows View(std::vector<Bf16>& numbers, int64_t rows) {
  const auto cols = static_cast<int64_t>(numbers.size()) / rows;
  return {DType::kBf16, numbers.data(), rows, cols, cols};
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_OPS_RANDOM_H_
