#include "engine/models/rounding_noise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <span>
#include <utility>

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

// All that a model may ask for, by its own names.
absl::StatusOr<std::map<std::string, Tensor>> NativeTensors(const Weights& weights, const TensorView* view) {
  std::map<std::string, Tensor> tensors;
  if (view == nullptr) {
    for (const auto& [name, form] : weights.tensors()) {
      ASSIGN_OR_RETURN(tensors[name], weights.Read(name));
    }
    return tensors;
  }
  for (const auto& [name, viewed] : view->tensors()) {
    if (!std::ranges::all_of(viewed.names(), [&](const std::string& of) { return weights.Has(of); }))
      continue;
    ASSIGN_OR_RETURN(tensors[name], viewed.Make(weights));
  }
  return tensors;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> LoadWithNoise(const std::string& folder, Precision precision,
                                                           int seed, const Weights* drawn) {
  ASSIGN_OR_RETURN(const LoadedCheckpoint loaded, LoadCheckpoint(folder, drawn));
  ASSIGN_OR_RETURN(auto tensors, NativeTensors(*loaded.weights, loaded.view()));
  std::mt19937 random(seed);
  for (auto& [name, tensor] : tensors) {
    const bool int8 = precision == Precision::kInt8 && !name.starts_with("embed.");
    if (tensor.rank() > 1 && tensor.dtype != DType::kI64) tensor = WithNoise(tensor, int8, random);
  }
  return NewNativeModel(loaded.model.config, *Weights::Of(std::move(tensors)),
                        {.precision = Precision::kF32});
}

}  // namespace heed
