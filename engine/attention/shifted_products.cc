#include "engine/attention/shifted_products.h"

#include <memory>
#include <utility>

#include "engine/base/status.h"

namespace heed {
namespace {

// Its columns times shares, or times what they leave of 1.
Tensor TimesShares(const Tensor& weight, const std::vector<float>& shares, bool rest) {
  const auto memory = std::make_shared<Buffer>(weight.size() * static_cast<int64_t>(sizeof(float)));
  float* numbers = memory->as<float>();
  ToFloats(weight, 0, weight.size(), numbers);
  const auto columns = std::ssize(shares);
  for (int64_t i = 0; i < weight.size(); ++i) {
    const float share = shares[i % columns];
    numbers[i] *= rest ? 1 - share : share;
  }
  return {DType::kF32, weight.shape, numbers, memory};
}

}  // namespace

absl::Status AddShiftedProducts(const WeightScope& scope, const std::string& name, int64_t out, int64_t in,
                                std::vector<Product>& products) {
  ASSIGN_OR_RETURN(const Tensor weight, (scope / name).Get("weight", {out, in}));
  ASSIGN_OR_RETURN(const std::vector<float> shares, scope.Floats("mix_" + name, {in}));
  products.push_back({.name = name, .weight = TimesShares(weight, shares, /*rest=*/false)});
  products.push_back({.name = name + "_before", .weight = TimesShares(weight, shares, /*rest=*/true)});
  return absl::OkStatus();
}

}  // namespace heed
