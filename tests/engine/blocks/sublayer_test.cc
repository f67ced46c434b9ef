// What an attention may do with rows that are not at hand is what its layer does with those that are.
#include "engine/blocks/sublayer.h"

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "engine/ops/gemm.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

constexpr int64_t kWidth = 48, kRows = 20;

class RandomWeights {
 public:
  RandomWeights() {
    for (const char* name : {"q", "k", "v", "o"}) Add(Cat(name, ".weight"), {kWidth, kWidth});
    for (const char* name : {"k.bias", "norm.weight", "norm.bias"}) Add(name, {kWidth});
    weights_ = Weights::Of(tensors_);
  }
  WeightScope scope() const { return WeightScope(*weights_); }

 private:
  void Add(const std::string& name, std::vector<int64_t> shape) {
    Tensor tensor{DType::kF32, std::move(shape)};
    std::vector<float>& numbers = numbers_[name];
    for (int64_t i = 0; i < tensor.size(); ++i) numbers.push_back(normal_(random_));
    tensor.data = numbers.data();
    tensors_[name] = tensor;
  }

  std::mt19937 random_{3};
  std::normal_distribution<float> normal_;
  std::map<std::string, std::vector<float>> numbers_;
  std::map<std::string, Tensor> tensors_;
  std::unique_ptr<Weights> weights_;
};

AttentionSublayer SublayerOf(const RandomWeights& weights, NormPlacement placement, Precision precision) {
  const AttentionSetting setting{
      .width = kWidth, .num_heads = 3, .causal = true, .precision = precision, .where = "test"};
  const Json options = *ParseJson(R"({"type": "full"})", "options");
  JsonFields fields(options, "test");
  auto attention = NewAttention(setting, fields, weights.scope());
  CHECK(attention.ok()) << attention.status();
  auto sublayer = AttentionSublayer::Load(*std::move(attention), weights.scope(), weights.scope() / "norm",
                                          {.width = kWidth, .norm = {.placement = placement}}, precision);
  CHECK(sublayer.ok()) << sublayer.status();
  return *std::move(sublayer);
}

TEST(AttentionSublayer, RowsThatAreNotAtHandAreNormedAndMultipliedAsThoseThatAre) {
  const RandomWeights weights;
  for (NormPlacement placement :
       {NormPlacement::kPre, NormPlacement::kPost, NormPlacement::kResPost, NormPlacement::kNone}) {
    for (Precision wanted : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      const Precision precision = Supported(wanted);
      const AttentionSublayer sublayer = SublayerOf(weights, placement, precision);
      const DType type = ActivationType(precision);
      RowBuffer x(kRows, kWidth, DType::kF32), products(kRows, sublayer.products_width(), type),
          normed(kRows, kWidth, type), again(kRows, sublayer.products_width(), type);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t c = 0; c < kWidth; ++c)
          x.rows().As<float>().row(r)[c] = static_cast<float>((r * 31 + c * 17) % 23) - 9;
      }
      BlockBuffers buffers({.width = kWidth, .reads = kWidth, .shared_bytes = 0}, precision);
      Team alone;
      Scratch scratch;
      RowBlock block{alone, scratch, buffers, x.rows().As<float>()};
      const std::vector<int64_t> positions(kRows, 7);
      sublayer.Open(block, {.positions = positions, .labels = {}}, products.rows());
      const LayerInput& layer = sublayer;
      layer.Normalize(x.rows().As<const float>(), normed.rows());
      GemmOfActivations(alone, normed.rows(), layer.products(), {.out = again.rows()}, scratch);
      for (int64_t r = 0; r < kRows; ++r) {
        EXPECT_EQ(std::memcmp(products.rows().at(r), again.rows().at(r), products.rows().cols * SizeOf(type)),
                  0)
            << Name(wanted) << " row " << r;
      }
    }
  }
}

}  // namespace
}  // namespace heed
