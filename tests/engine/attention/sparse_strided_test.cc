// The work and the state that `sparse_strided` promises.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/attention/key_value_pages.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

AttentionExample Strided(int64_t stride, const std::string& more = "") {
  return {"sparse_strided", Cat(R"({"stride": )", stride, more, "}"), Place::kDecoder, 64};
}

// A tile of 64 neighbours reads its band once, a tile of 64 rows of a residue the track before its last row:
// in pieces of 32 keys, rows rounded to 8.
int64_t ClosedForm(int64_t n, int64_t stride) {
  int64_t pairs = 0;
  for (int64_t row = 0; row < n; row += 64) {
    const int64_t rows = std::min<int64_t>(64, n - row), begin = std::max<int64_t>(0, row - stride) / 32 * 32;
    pairs += RoundUp(rows, 8) * (RoundUp(row + rows, 32) - begin);
  }
  for (int64_t residue = 0; residue < stride; ++residue) {
    const int64_t places = (n - residue + stride - 1) / stride;
    for (int64_t row = 0; row < places; row += 64) {
      const int64_t rows = std::min<int64_t>(64, places - row);
      pairs += RoundUp(rows, 8) * RoundUp(std::max<int64_t>(0, row + rows - 2), 32);
    }
  }
  return pairs;
}

TEST(SparseStrided, ComputesAtMostThePairsOfItsTiles) {
  for (int64_t stride : {8, 16, 32, 64, 100, 300}) {
    const Layer layer(Strided(stride), Precision::kF32);
    for (int64_t n : {40, 1000, 4096}) {
      const int64_t before = MicroKernel::MultiplyAdds();
      Whole(layer, n);
      EXPECT_LE(MicroKernel::MultiplyAdds() - before, ClosedForm(n, stride) * 2 * 64)
          << n << " tokens, stride " << stride;
    }
  }
}

TEST(SparseStrided, WorkGrowsWithTheRootOfTheLength) {
  const auto cost = [](int64_t root) {
    return Layer(Strided(root), Precision::kF32).attention().Cost(root * root, root * root);
  };
  EXPECT_NEAR(cost(256) / cost(64), 4 * 4 * 4, 2);
  EXPECT_LE(cost(256), 1.5 * 256 * 256.0 * 256 * 2 * 64);
}

TEST(SparseStrided, AStepReadsItsBandAndItsTrack) {
  constexpr int64_t kStride = 64, kTokens = 64 * 64;
  const Layer layer(Strided(kStride), Precision::kF32);
  const auto run = layer.attention().Start();
  Passage passage(layer, kTokens + 1);
  passage.Extend(*run, 0, kTokens);
  const int64_t before = MicroKernel::MultiplyAdds();
  passage.Extend(*run, kTokens, kTokens + 1);
  // 65 keys in pieces of 32 that do not begin with them, and 63 before.
  EXPECT_LE(MicroKernel::MultiplyAdds() - before, (96 + 64) * 2 * 64);
  EXPECT_GE(MicroKernel::MultiplyAdds() - before, (65 + 63) * 2 * 64);
}

TEST(SparseStrided, StepsAreTheWholeAtEveryStride) {
  for (int64_t stride : {1, 2, 5, 33, 300}) {
    const Layer layer(Strided(stride), Precision::kF32);
    EXPECT_LE(DifferenceOfSteps(layer, 800, 700, 1), 1e-5) << stride;
    EXPECT_LE(DifferenceOfSteps(layer, 800, 700, 7), 1e-5) << stride;
  }
}

// The last page of a track has room for at most twice what it holds; the band's have 128 places.
TEST(SparseStrided, HoldsEachTokenOnceAndTheBandAgain) {
  const int64_t token = 2 * 64 * 4, log_sum_exp = 4 * 4;
  for (int64_t stride : {8, 64, 200}) {
    const Layer layer(Strided(stride), Precision::kF32);
    const auto run = layer.attention().Start();
    Passage passage(layer, 3000);
    for (int64_t begin = 0; begin < 3000; begin += 100) {
      passage.Extend(*run, begin, begin + 100);
      const int64_t n = begin + 100, tracks = std::min(2 * n, n + 15 * stride),
                    band = std::min(n, stride) + 2 * 128;
      EXPECT_LE(Measured(*run), 8 + token * (tracks + band) + log_sum_exp * 100)
          << n << ", stride " << stride;
      EXPECT_LE(layer.attention().StateBytes(n), 8 + token * (tracks + band) + log_sum_exp * n);
    }
  }
}

TEST(SparseStrided, ALocalLayersStateStopsGrowing) {
  const Layer layer(Strided(100, R"(, "pattern": "local")"), Precision::kF32);
  EXPECT_EQ(layer.attention().StateBytes(1000), layer.attention().StateBytes(1 << 20));
  EXPECT_LE(layer.attention().StateBytes(1000), 8 + 2 * 128 * 2 * 64 * 4);
}

}  // namespace
}  // namespace heed
