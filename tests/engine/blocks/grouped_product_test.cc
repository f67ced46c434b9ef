// Products of others' results against their definition, as one matrix and as one a group, by teams.
#include "engine/blocks/grouped_product.h"

#include <algorithm>
#include <random>
#include <vector>

#include "engine/base/threads.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

constexpr int64_t kRows = 21, kIn = 12, kOut = 10;  // of a group

std::vector<float> RandomFloats(int64_t count, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& x : numbers) x = normal(random);
  return numbers;
}

// What a team makes of x [kRows, groups * kIn].
RowBuffer Made(const GroupedProduct& product, const std::vector<float>& x, int threads) {
  RowBuffer in(kRows, product.in(), DType::kF32), out(kRows, product.out(), DType::kF32),
      stream(kRows, product.in(), DType::kF32);
  for (int64_t r = 0; r < kRows; ++r)
    std::copy_n(&x[r * product.in()], product.in(), in.rows().As<float>().row(r));
  BlockBuffers buffers({.width = product.in(), .reads = product.in()}, Precision::kF32);
  Threads pool(threads);
  std::vector<Scratch> scratch(threads);
  pool.RunTeam([&](Team& team) {
    RowBlock block{team, scratch[team.rank()], buffers, stream.rows().As<float>()};
    product.Run(block, in.rows(), out.rows());
  });
  return out;
}

TEST(GroupedProduct, MakesEachGroupOfThatGroupAlone) {
  for (int64_t groups : {1, 3}) {
    const std::vector<float> weight = RandomFloats(groups * kOut * kIn, 1),
                             bias = RandomFloats(groups * kOut, 2), x = RandomFloats(kRows * groups * kIn, 3);
    Product of{.name = "of",
               .weight = {DType::kF32, {groups * kOut, kIn}, weight.data()},
               .bias = {DType::kF32, {groups * kOut}, bias.data()}};
    of.groups = groups;
    const GroupedProduct product = GroupedProduct::Pack(of, Precision::kF32);
    EXPECT_EQ(product.in(), groups * kIn);
    EXPECT_EQ(product.out(), groups * kOut);
    EXPECT_EQ(product.multiply_adds(), static_cast<double>(groups * kIn * kOut));
    for (int threads : {1, 4}) {
      const RowBuffer made = Made(product, x, threads);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t c = 0; c < groups * kOut; ++c) {
          double sum = bias[c];
          for (int64_t k = 0; k < kIn; ++k)
            sum += static_cast<double>(weight[c * kIn + k]) * x[r * groups * kIn + c / kOut * kIn + k];
          ASSERT_NEAR(made.rows().As<float>().row(r)[c], sum, 1e-5) << groups << " groups";
        }
      }
    }
  }
}

}  // namespace
}  // namespace heed
