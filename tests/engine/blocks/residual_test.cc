// Residual connections against their formulas: wherever norms stand, with a multiplier, with an offset of
// norms' weights.
#include <cmath>
#include <string>
#include <vector>

#include "engine/base/threads.h"
#include "engine/blocks/sublayer.h"
#include "gtest/gtest.h"
#include "tests/testing/random_weights.h"

namespace heed {
namespace {

constexpr int64_t kWidth = 40, kRows = 23;

using Row = std::vector<double>;

struct World {
  World(NormType type, NormPlacement placement, float multiplier, float offset)
      : weights(NewRandomWeights([](const std::string&) { return true; })),
        options{.width = kWidth,
                .norm = {.placement = placement, .type = type, .eps = 0.01f, .weight_offset = offset},
                .multiplier = multiplier},
        residual(*Residual::Load(WeightScope(*weights) / "norm2", options)) {}

  double Number(const std::string& name, int64_t c) const {
    return static_cast<const float*>(weights->tensors().at(name).data)[c];
  }
  Row Norm(const std::string& name, const Row& x) const {
    const bool layer = options.norm.type == NormType::kLayer;
    double mean = 0, variance = 0;
    for (double v : x) mean += layer ? v / kWidth : 0;
    for (double v : x) variance += (v - mean) * (v - mean) / kWidth;
    Row y(kWidth);
    for (int64_t c = 0; c < kWidth; ++c)
      y[c] = (x[c] - mean) / std::sqrt(variance + options.norm.eps) *
                 (Number(name + ".weight", c) + options.norm.weight_offset) +
             (layer ? Number(name + ".bias", c) : 0);
    return y;
  }
  Row Expected(Row x) const {
    const NormPlacement placement = options.norm.placement;
    if (placement == NormPlacement::kNormed) x = Norm("norm2", x);
    Row f = NormsInput(placement) ? Norm("norm2", x) : x;
    for (double& v : f) v = 2 * v - 1;
    if (placement == NormPlacement::kResPost) f = Norm("norm2", f);
    if (placement == NormPlacement::kSandwich) f = Norm("norm2_post", f);
    for (int64_t c = 0; c < kWidth; ++c) x[c] += options.multiplier * f[c];
    return placement == NormPlacement::kPost ? Norm("norm2", x) : x;
  }

  std::unique_ptr<Weights> weights;
  ResidualOptions options;
  Residual residual;
};

// 2 x - 1 of what the sublayer reads, by a team.
void Run(const World& world, int threads, RowBuffer& x) {
  Threads pool(threads);
  std::vector<Scratch> scratch(threads);
  BlockBuffers buffers({.width = kWidth, .reads = kWidth}, Precision::kF32);
  pool.RunTeam([&](Team& team) {
    RowBlock block{team, scratch[team.rank()], buffers, x.rows().As<float>()};
    const Matrix<float> in = world.residual.Open(block).As<float>();
    world.residual.Close(block, [&](const Epilogue& epilogue) {
      const Matrix<float> out = epilogue.out.As<float>();
      ForRows(block, [&](int64_t first, int64_t count) {
        for (int64_t r = first; r < first + count; ++r) {
          for (int64_t c = 0; c < kWidth; ++c) {
            const float f = 2 * in.row(r)[c] - 1;
            out.row(r)[c] = epilogue.add ? out.row(r)[c] + f : f;
          }
        }
      });
    });
  });
}

void ExpectTheFormula(const World& world, int threads) {
  RowBuffer x(kRows, kWidth, DType::kF32);
  std::vector<Row> rows;
  RandomNumbers random("rows", 3);
  for (int64_t r = 0; r < kRows; ++r) {
    Row& row = rows.emplace_back(kWidth);
    for (int64_t c = 0; c < kWidth; ++c)
      row[c] = x.rows().As<float>().row(r)[c] = static_cast<float>(random.Next());
  }
  Run(world, threads, x);
  for (int64_t r = 0; r < kRows; ++r) {
    const Row expected = world.Expected(rows[r]);
    for (int64_t c = 0; c < kWidth; ++c)
      ASSERT_NEAR(x.rows().As<float>().row(r)[c], expected[c], 1e-5) << "row " << r << " column " << c;
  }
}

TEST(Residual, IsItsFormulaWhereverNormsStand) {
  for (NormPlacement placement : {NormPlacement::kPre, NormPlacement::kPost, NormPlacement::kResPost,
                                  NormPlacement::kSandwich, NormPlacement::kNormed, NormPlacement::kNone}) {
    for (NormType type : {NormType::kLayer, NormType::kRms}) {
      for (float multiplier : {1.0f, 0.22f, 0.0f}) {
        for (float offset : {0.0f, 1.0f}) {
          SCOPED_TRACE(testing::Message() << "placement " << static_cast<int>(placement) << " multiplier "
                                          << multiplier << " offset " << offset);
          for (int threads : {1, 4}) ExpectTheFormula({type, placement, multiplier, offset}, threads);
        }
      }
    }
  }
}

TEST(Residual, ASandwichWantsBothNorms) {
  const auto weights = NewRandomWeights([](const std::string&) { return true; });
  const auto loaded = Residual::Load(WeightScope(*weights) / "layers.3.norm1",
                                     {.width = kWidth, .norm = {.placement = NormPlacement::kSandwich}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(weights->tensors().contains("layers.3.norm1_post.weight"));
  const auto missing = Weights::Of({});
  EXPECT_FALSE(Residual::Load(WeightScope(*missing) / "norm1",
                              {.width = kWidth, .norm = {.placement = NormPlacement::kSandwich}})
                   .ok());
}

}  // namespace
}  // namespace heed
