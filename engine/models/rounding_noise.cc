#include "engine/models/rounding_noise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <span>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/models/native.h"
#include "engine/weights/weights.h"

namespace heed {
namespace {

constexpr double kAmplitude = 2;  // of a rounding's own
constexpr float kBf16Rounding = 1.0f / 256,
                kInt8Rounding = 1.0f / 254;  // of the number, of the row's largest

// Moves numbers by noise within a share of themselves, or of the largest of them.
void AddNoise(std::span<float> row, bool int8, std::mt19937& random) {
  std::uniform_real_distribution<float> noise(-kAmplitude, kAmplitude);
  float largest = 0;
  for (float x : row) largest = std::max(largest, std::abs(x));
  for (float& x : row) x += noise(random) * (int8 ? largest * kInt8Rounding : std::abs(x) * kBf16Rounding);
}

Tensor WithNoise(const Tensor& tensor, bool int8, std::mt19937& random) {
  const int64_t width = tensor.shape.back();
  const auto memory = std::make_shared<Buffer>(tensor.size() * SizeOf(DType::kF32));
  float* numbers = memory->as<float>();
  ToFloats(tensor, 0, tensor.size(), numbers);
  for (int64_t at = 0; at < tensor.size(); at += width)
    AddNoise({numbers + at, numbers + at + width}, int8, random);
  return {DType::kF32, tensor.shape, numbers, memory};
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> LoadWithNoise(const std::string& folder, Precision precision,
                                                           int seed) {
  ASSIGN_OR_RETURN(const Json config, ReadModelConfig(folder));
  ASSIGN_OR_RETURN(const std::unique_ptr<Weights> weights, Weights::Load(folder));
  std::mt19937 random(seed);
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, form] : weights->tensors()) {
    ASSIGN_OR_RETURN(tensors[name], weights->Read(name));
    const bool int8 = precision == Precision::kInt8 && !name.starts_with("embed.");
    if (form.rank() > 1 && form.dtype != DType::kI64) tensors[name] = WithNoise(tensors[name], int8, random);
  }
  return NewNativeModel(config, *Weights::Of(std::move(tensors)), {.precision = Precision::kF32});
}

}  // namespace heed
