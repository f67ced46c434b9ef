// Products that choose who meets are computed in a precision of their own.
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "engine/blocks/sublayer.h"
#include "engine/ops/rows.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

constexpr int64_t kWidth = 32, kRows = 20;

class RoutingLayer {
 public:
  RoutingLayer() {
    const std::map<std::string, std::vector<int64_t>> shapes = {
        {"q.weight", {kWidth, kWidth}}, {"q.bias", {kWidth}},           {"k.weight", {kWidth, kWidth}},
        {"v.weight", {kWidth, kWidth}}, {"o.weight", {kWidth, kWidth}}, {"centroids", {4, 3, 8}},
        {"norm.weight", {kWidth}},      {"norm.bias", {kWidth}}};
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, shape] : shapes) {
      Tensor& tensor = tensors[name] = {DType::kF32, shape};
      std::vector<float>& numbers = numbers_[name];
      for (int64_t i = 0; i < tensor.size(); ++i) numbers.push_back(normal(random));
      tensor.data = numbers.data();
    }
    weights_ = Weights::Of(tensors);
  }

  AttentionSublayer Load(Precision precision) const {
    const AttentionSetting setting{kWidth, 4, false, false, precision, "config.json: layers[0].attention"};
    const Json options = {{"type", "routing"}, {"clusters", 3}, {"window", 8}, {"shared_qk", false}};
    JsonFields fields(options, setting.where);
    const WeightScope scope(*weights_);
    auto attention = NewAttention(setting, fields, scope);
    CHECK(attention.ok()) << attention.status();
    auto sublayer =
        AttentionSublayer::Load(*std::move(attention), scope, scope / "norm", {.width = kWidth}, precision);
    CHECK(sublayer.ok()) << sublayer.status();
    return *std::move(sublayer);
  }

  // Of some rows, by product.
  std::map<std::string, std::vector<float>> Products(Precision precision) const {
    const AttentionSublayer sublayer = Load(precision);
    BlockBuffers buffers({.width = kWidth, .reads = kWidth}, precision);
    std::vector<float> x(kRows * kWidth);
    std::mt19937 random(4);
    for (float& number : x) number = std::normal_distribution<float>()(random);
    const RowBuffer products(kRows, sublayer.products_width(), ActivationType(precision));
    Team alone;
    Scratch scratch;
    RowBlock block{alone, scratch, buffers, {x.data(), kRows, kWidth, kWidth}};
    const std::vector<int64_t> positions(kRows);
    sublayer.Open(block, {.positions = positions, .labels = {}}, products.rows());
    std::map<std::string, std::vector<float>> all;
    const std::vector<Rows> split = sublayer.Split(products.rows(), {});
    for (size_t p = 0; p < split.size(); ++p) {
      std::vector<float>& numbers = all[sublayer.attention().products()[p].name];
      numbers.resize(kRows * kWidth);
      Convert(split[p], {DType::kF32, numbers.data(), kRows, kWidth, kWidth});
    }
    return all;
  }

 private:
  std::map<std::string, std::vector<float>> numbers_;
  std::unique_ptr<Weights> weights_;
};

TEST(AttentionSublayer, ProductsThatChooseAreNotRoundedToInt8) {
  const Precision precision = Supported(Precision::kInt8);  // f32 where there is none
  const RoutingLayer layer;
  const auto rounded = layer.Products(precision), exact = layer.Products(PrecisionOfChoices(precision));
  ASSERT_EQ(rounded.size(), 3u);
  EXPECT_EQ(rounded.at("q"), exact.at("q"));
  EXPECT_EQ(rounded.at("k"), exact.at("k"));
  EXPECT_EQ(rounded.at("v") != exact.at("v"), precision == Precision::kInt8);
  for (size_t i = 0; i < exact.at("v").size(); ++i)
    ASSERT_NEAR(rounded.at("v")[i], exact.at("v")[i], 0.02 * kWidth) << i;
}

TEST(AttentionSublayer, CountsTheWeightsOfProductsThatChoose) {
  const RoutingLayer layer;
  for (Precision precision : {Precision::kF32, Supported(Precision::kInt8)}) {
    const AttentionSublayer sublayer = layer.Load(precision);
    EXPECT_EQ(sublayer.open_multiply_adds(), 3 * kWidth * kWidth);
    EXPECT_EQ(sublayer.close_multiply_adds(), kWidth * kWidth);
  }
}

}  // namespace
}  // namespace heed
