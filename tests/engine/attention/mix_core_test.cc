// Mixed scores against their definition, written out in double, and how often the micro-kernel is called for
// them.
#include "engine/attention/mix_core.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/attention/softmax_core.h"
#include "engine/ops/microkernel.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/random_rows.h"

namespace heed {
namespace {

constexpr int64_t kRows = 300, kHeadDim = 24;
constexpr int64_t kMost = 330;  // positions: 15 times 22

std::vector<DType> Types() {
  return HasMicroKernel(DType::kBf16) ? std::vector{DType::kF32, DType::kBf16} : std::vector{DType::kF32};
}

// Numbers that bf16 holds too, so that both types compute of the same.
std::vector<float> Numbers(int64_t n, int seed) {
  const OwnedRows random = OwnedRows::Random(DType::kBf16, 1, n, seed);
  std::vector<float> numbers(n);
  for (int64_t i = 0; i < n; ++i) numbers[i] = static_cast<float>(random.At(0, i) / 2);
  return numbers;
}

MixScores::Parts Parts(bool columns, bool table, bool factors) {
  MixScores::Parts parts;
  parts.n_max = kMost;
  parts.given = columns || factors ? 7 : 0;
  if (columns) {
    parts.constants = 3;
    parts.constant = Numbers(kMost * 3, 10);
    parts.columns = Numbers(kMost * (parts.given + 1 + 3), 11);
  }
  if (table) parts.table = Numbers(kMost * kMost, 12);
  if (!factors) return parts;
  parts.a = 15;
  parts.c = 22;
  parts.factors = Numbers((15 + 22) * (parts.given + 1), 13);
  return parts;
}

struct World {
  World(DType type, const MixScores::Parts& parts)
      : parts(parts),
        given(OwnedRows::Random(type, kRows, parts.given, 1)),
        v(OwnedRows::Random(type, kRows, kHeadDim, 2)),
        out(type, kRows, kHeadDim),
        scores(type, parts),
        core(type, kHeadDim, 1),
        pages(type, kHeadDim, false) {
    pages.Append(v.rows(), v.rows());
  }

  void Attend(bool causal) {
    for (int64_t first = 0; first < kRows; first += SoftmaxCore::kTile) {
      const int64_t count = std::min<int64_t>(SoftmaxCore::kTile, kRows - first);
      const MixTile tile(scores, given.rows().Slice(first, count), first, scratch);
      SoftmaxQueries queries{.q = {v.rows().dtype, nullptr, count}, .out = out.rows().Slice(first, count)};
      queries.first = first;
      const Band band{.right = causal ? 0 : kUnlimited};
      const KeySource source{.pages = &pages, .sees = band, .bias = &tile};
      core.Attend(queries, {&source, 1}, scratch);
      scratch.Reset();
    }
  }

  // Row i of a matrix [., 7 + 1 (+ constants)] times what the row at position `row` brings.
  double Product(const std::vector<float>& matrix, int64_t i, int64_t row, int64_t constants) const {
    const int64_t width = parts.given + 1 + constants;
    const float* numbers = &matrix[i * width];
    double sum = numbers[parts.given];
    for (int64_t t = 0; t < parts.given; ++t) sum += numbers[t] * std::max(0.0, given.At(row, t));
    for (int64_t t = 0; t < constants; ++t)
      sum += numbers[parts.given + 1 + t] * parts.constant[row * constants + t];
    return sum;
  }
  double Score(int64_t i, int64_t j) const {
    double score = 0;
    if (!parts.columns.empty()) score += Product(parts.columns, j, i, parts.constants);
    if (!parts.table.empty()) score += parts.table[i * kMost + j];
    if (parts.factors.empty()) return score;
    return score +
           Product(parts.factors, j % parts.a, i, 0) * Product(parts.factors, parts.a + j / parts.a, i, 0);
  }
  double Error(bool causal) const {
    double largest = 0;
    for (int64_t i = 0; i < kRows; i += 7) {
      double sum = 0;
      std::vector<double> result(kHeadDim);
      for (int64_t j = 0; j < (causal ? i + 1 : kRows); ++j) {
        const double weight = std::exp2(Score(i, j));  // scores come times log2(e)
        sum += weight;
        for (int64_t t = 0; t < kHeadDim; ++t) result[t] += weight * v.At(j, t);
      }
      for (int64_t t = 0; t < kHeadDim; ++t)
        largest = std::max(largest, std::abs(result[t] / sum - out.At(i, t)));
    }
    return largest;
  }

  MixScores::Parts parts;
  OwnedRows given, v, out;
  MixScores scores;
  SoftmaxCore core;
  KeyValuePages pages;
  Scratch scratch;
};

TEST(MixCore, IsItsDefinitionWithAnyOfItsParts) {
  for (DType type : Types()) {
    for (int mask = 0; mask < 8; ++mask) {
      World world(type, Parts(mask & 1, mask & 2, mask & 4));
      for (bool causal : {false, true}) {
        world.Attend(causal);
        EXPECT_LE(world.Error(causal), type == DType::kF32 ? 2e-5 : 3e-2)
            << "parts " << mask << ", causal " << causal;
      }
    }
  }
}

// 300 rows are three tiles. Causal, they see 1, 1 and 2 blocks of keys, else 2 each. A block costs one call
// for the panel of values and one for scores that are a product; factors are one for each tile.
TEST(MixCore, CallsTheMicroKernelOnceForEachBlockOfScores) {
  const auto calls = [](const MixScores::Parts& parts, bool causal) {
    World world(DType::kF32, parts);
    const int64_t before = MicroKernel::Calls();
    world.Attend(causal);
    return MicroKernel::Calls() - before;
  };
  EXPECT_EQ(calls(Parts(false, true, false), true), 4);
  EXPECT_EQ(calls(Parts(false, true, false), false), 6);
  EXPECT_EQ(calls(Parts(true, true, false), true), 4 + 4);
  EXPECT_EQ(calls(Parts(true, false, true), true), 4 + 4 + 3);
}

}  // namespace
}  // namespace heed
