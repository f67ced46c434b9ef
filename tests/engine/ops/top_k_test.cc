#include "engine/ops/top_k.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

std::vector<int32_t> Indices(const std::vector<float>& x, int64_t k) {
  std::vector<Ranked> best(k);
  Scratch scratch;
  scratch.Reserve(TopKScratchBytes(k));
  const size_t reserved = scratch.bytes();
  TopK(x.data(), std::ssize(x), k, scratch, best.data());
  EXPECT_EQ(scratch.bytes(), reserved);
  std::vector<int32_t> indices;
  for (const Ranked& one : best) indices.push_back(one.index);
  return indices;
}

TEST(TopK, AreThoseOfAStableSort) {
  std::mt19937 random(3);
  for (int64_t n : {1, 2, 7, 64, 300, 1000}) {
    for (int64_t k : {int64_t{1}, (n + 1) / 2, n}) {
      std::vector<float> x(n);
      for (float& number : x) number = static_cast<float>(random() % 40) - 20;  // many are equal
      for (int64_t i = 0; i < n; i += 5) x[i] *= 0.12345f;
      std::vector<int32_t> order(n);
      for (int32_t i = 0; i < n; ++i) order[i] = i;
      std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return x[a] > x[b]; });
      order.resize(k);
      EXPECT_EQ(Indices(x, k), order) << k << " of " << n;
    }
  }
}

TEST(TopK, NanIsTheLeast) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kLeast = std::numeric_limits<float>::lowest();
  EXPECT_EQ(Indices({kNan, 1, kNan, kLeast, 2}, 3), (std::vector<int32_t>{4, 1, 3}));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Indices({kNan, -kInfinity, 0.0f, kInfinity, -0.0f, kNan}, 5),
            (std::vector<int32_t>{3, 2, 4, 1, 0}));
  EXPECT_EQ(Indices({kNan, kNan, kNan}, 2), (std::vector<int32_t>{0, 1}));
}

}  // namespace
}  // namespace heed
