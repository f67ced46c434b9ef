// What an attention may do with rows that are not at hand is what its layer does with those that are.
#include "engine/blocks/sublayer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "engine/base/threads.h"
#include "engine/ops/gemm.h"
#include "engine/ops/rows.h"
#include "gtest/gtest.h"
#include "tests/testing/random_weights.h"

namespace heed {
namespace {

constexpr int64_t kWidth = 48, kRows = 20;

class RandomWeights {
 public:
  RandomWeights() {
    for (const char* name : {"q", "k", "v", "o"}) Add(Cat(name, ".weight"), {kWidth, kWidth});
    for (const char* name : {"k.bias", "norm.weight", "norm.bias", "norm_post.weight", "norm_post.bias"})
      Add(name, {kWidth});
    for (const char* name : {"q_norm.weight", "k_norm.weight"}) Add(name, {kWidth});
    weights_ = Weights::Of(tensors_);
  }
  WeightScope scope() const { return WeightScope(*weights_); }
  const float* numbers(const std::string& name) const { return numbers_.at(name).data(); }

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

AttentionSublayer SublayerOf(const RandomWeights& weights, NormPlacement placement, Precision precision,
                             const char* attention_options = R"({"type": "full"})", bool cross = false) {
  const AttentionSetting setting{.width = kWidth,
                                 .num_heads = 3,
                                 .causal = !cross,
                                 .cross = cross,
                                 .precision = precision,
                                 .where = "test"};
  const Json options = *ParseJson(attention_options, "options");
  JsonFields fields(options, "test");
  auto attention = NewAttention(setting, fields, weights.scope());
  CHECK(attention.ok()) << attention.status();
  auto sublayer = AttentionSublayer::Load(*std::move(attention), weights.scope(), weights.scope() / "norm",
                                          {.width = kWidth, .norm = {.placement = placement}}, precision);
  CHECK(sublayer.ok()) << sublayer.status();
  return *std::move(sublayer);
}

TEST(AttentionSublayer, AGateMultipliesWhatTheOutputProjectionGives) {
  constexpr int64_t kInner = 32;
  for (const float multiplier : {1.0f, 0.5f}) {
    const auto made = NewRandomWeights([](const std::string&) { return false; });
    const WeightScope scope(*made);
    const AttentionSetting setting{.width = kWidth, .num_heads = 3, .causal = true, .where = "test"};
    const Json options = {{"type", "rwkv_channel"}, {"inner_size", kInner}};
    JsonFields fields(options, "test");
    auto attention = NewAttention(setting, fields, scope);
    CHECK(attention.ok()) << attention.status();
    const auto sublayer =
        AttentionSublayer::Load(*std::move(attention), scope, scope / "norm",
                                {.width = kWidth, .multiplier = multiplier}, Precision::kF32);
    CHECK(sublayer.ok()) << sublayer.status();
    RowBuffer x(kRows, kWidth, DType::kF32), attended(kRows, kInner + kWidth, DType::kF32);
    const auto fill = [](const Matrix<float>& rows, int64_t seed) {
      for (int64_t r = 0; r < rows.rows; ++r) {
        for (int64_t c = 0; c < rows.cols; ++c)
          rows.row(r)[c] = static_cast<float>((r * 31 + c * 17 + seed) % 23) / 8 - 1;
      }
    };
    fill(x.rows().As<float>(), 3);
    const Matrix<float> read = attended.rows().As<float>();
    fill(read, 5);
    BlockBuffers buffers({.width = kWidth, .reads = kInner + kWidth, .shared_bytes = 0}, Precision::kF32);
    Team alone;
    Scratch scratch;
    RowBlock block{alone, scratch, buffers, x.rows().As<float>()};
    sublayer->Close(block, attended.rows());
    const auto* o = static_cast<const float*>(made->tensors().at("o.weight").data);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kWidth; ++c) {
        double sum = 0;
        for (int64_t i = 0; i < kInner; ++i) sum += double{o[c * kInner + i]} * read.row(r)[i];
        const double before = static_cast<float>((r * 31 + c * 17 + 3) % 23) / 8 - 1,
                     gate = 1 / (1 + std::exp(-double{read.row(r)[kInner + c]}));
        EXPECT_NEAR(x.rows().As<float>().row(r)[c], before + multiplier * gate * sum, 1e-5);
      }
    }
  }
}

TEST(AttentionSublayer, RowsThatAreNotAtHandAreNormedAndMultipliedAsThoseThatAre) {
  const RandomWeights weights;
  for (NormPlacement placement : {NormPlacement::kPre, NormPlacement::kPost, NormPlacement::kResPost,
                                  NormPlacement::kSandwich, NormPlacement::kNone}) {
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

// What Open() and OpenSource() make of some rows, by a team of so many.
std::vector<RowBuffer> ProductsOf(const AttentionSublayer& sublayer, Precision precision, int threads) {
  const DType type = ActivationType(precision);
  RowBuffer x(kRows, kWidth, DType::kF32), products(kRows, sublayer.products_width(), type),
      of_source(kRows, std::max<int64_t>(1, sublayer.source_products_width()), type);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kWidth; ++c)
      x.rows().As<float>().row(r)[c] = static_cast<float>((r * 31 + c * 17) % 23) - 9;
  }
  BlockBuffers buffers({.width = kWidth, .reads = kWidth, .shared_bytes = 0}, precision);
  const std::vector<int64_t> positions(kRows, 7);
  Threads pool(threads);
  std::vector<Scratch> scratch(threads);
  pool.RunTeam([&](Team& team) {
    RowBlock block{team, scratch[team.rank()], buffers, x.rows().As<float>()};
    sublayer.Open(block, {.positions = positions, .labels = {}}, products.rows());
    if (sublayer.cross()) sublayer.OpenSource(block, of_source.rows());
  });
  std::vector<RowBuffer> made;
  made.push_back(std::move(products));
  made.push_back(std::move(of_source));
  return made;
}

// Over all heads: the formula, on products that are made without it.
TEST(AttentionSublayer, QueriesAndKeysAreNormedBeforeTheAttentionReadsThem) {
  const RandomWeights weights;
  const float* const gains[] = {weights.numbers("q_norm.weight"), weights.numbers("k_norm.weight")};
  for (bool cross : {false, true}) {
    for (Precision wanted : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      const Precision precision = Supported(wanted);
      const AttentionSublayer plain = SublayerOf(weights, NormPlacement::kPre, precision,
                                                 R"({"type": "softmax"})", cross),
                              normed =
                                  SublayerOf(weights, NormPlacement::kPre, precision,
                                             R"({"type": "softmax", "qk_norm": {"over": "all"}})", cross);
      for (int threads : {1, 3}) {
        const std::vector<RowBuffer> without = ProductsOf(plain, precision, threads),
                                     with = ProductsOf(normed, precision, threads);
        const std::vector<Rows> raw = plain.Split(without[0].rows(), without[1].rows()),
                                found = normed.Split(with[0].rows(), with[1].rows());
        for (int p = 0; p < 3; ++p) {
          RowBuffer expected(kRows, kWidth, raw[p].dtype);
          Convert(raw[p], expected.rows());
          if (p < 2) RmsNorm(expected.rows(), gains[p], 1e-5f);
          for (int64_t r = 0; r < kRows; ++r) {
            EXPECT_EQ(std::memcmp(found[p].at(r), expected.rows().at(r), kWidth * SizeOf(raw[p].dtype)), 0)
                << Name(wanted) << " product " << p << " row " << r;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace heed
