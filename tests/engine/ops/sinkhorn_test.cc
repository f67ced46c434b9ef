#include "engine/ops/sinkhorn.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/ops/random.h"

namespace heed {
namespace {

using Square = std::vector<std::vector<double>>;

double LogSumExp(const std::vector<double>& x) {
  double peak = -std::numeric_limits<double>::infinity(), sum = 0;
  for (double value : x) peak = std::max(peak, value);
  for (double value : x) sum += std::exp(value - peak);
  return peak + std::log(sum);
}

// Row by row, then column by column, as the definition has it.
Square Balanced(Square r, int iterations) {
  const size_t n = r.size();
  for (int i = 0; i < iterations; ++i) {
    for (auto& row : r) {
      const double sum = LogSumExp(row);
      for (double& x : row) x -= sum;
    }
    for (size_t b = 0; b < n; ++b) {
      std::vector<double> column;
      for (const auto& row : r) column.push_back(row[b]);
      const double sum = LogSumExp(column);
      for (auto& row : r) row[b] -= sum;
    }
  }
  for (auto& row : r) {
    for (double& x : row) x = std::exp(x);
  }
  return r;
}

std::vector<const float*> Pointers(const std::vector<std::vector<float>>& rows) {
  std::vector<const float*> pointers;
  for (const auto& row : rows) pointers.push_back(row.data());
  return pointers;
}

// Scores of so many rows, and what balancing makes of them, compared with the definition.
void ExpectBalanced(int64_t n, bool triangle, int iterations, float scale, double tolerance) {
  Random random(n + 7);
  std::vector<std::vector<float>> rows;
  Square r(n, std::vector<double>(n, -std::numeric_limits<double>::infinity()));
  for (int64_t a = 0; a < n; ++a) {
    rows.push_back(random.Normals(triangle ? a + 1 : n, scale));
    const float largest = *std::ranges::max_element(rows.back());
    for (float& x : rows.back()) x -= largest;
    std::ranges::copy(rows.back(), r[a].begin());
  }
  std::vector<std::vector<float>> exponentials = rows;
  for (auto& row : exponentials) {
    for (float& x : row) x = std::exp(x);
  }
  std::vector<float> f(n), g(n), work(BalanceWork(n));
  Balance({Pointers(rows), Pointers(exponentials), triangle}, iterations, f.data(), g.data(), work.data());
  const Square expected = Balanced(r, iterations);
  for (int64_t a = 0; a < n; ++a) {
    std::vector<float> weights(rows[a].size());
    BalancedRow(rows[a].data(), std::ssize(weights), f[a], g.data(), weights.data());
    for (int64_t b = 0; b < std::ssize(weights); ++b)
      ASSERT_NEAR(weights[b], expected[a][b], tolerance) << a << ", " << b << " of " << n;
  }
}

TEST(Balance, MakesRowsAndColumnsSumToOne) {
  for (int64_t n : {1, 2, 7, 16, 17, 33, 70}) {
    for (bool triangle : {false, true}) {
      ExpectBalanced(n, triangle, 1, 1, 2e-6);
      ExpectBalanced(n, triangle, 5, 3, 1e-5);
    }
  }
}

TEST(Balance, WithoutIterationsIsTheExponential) {
  for (bool triangle : {false, true}) ExpectBalanced(20, triangle, 0, 1, 1e-5);
}

// Columns that every row puts below its favourite by e^86 and far more.
TEST(Balance, WhatNoRowPrefersIsBalancedToo) {
  for (int64_t n : {3, 16, 50}) {
    for (bool triangle : {false, true}) {
      ExpectBalanced(n, triangle, 1, 300, 1e-3);
      ExpectBalanced(n, triangle, 6, 1000, 5e-3);
    }
  }
}

// Scales that grow from one iteration to the next, until logarithms go on.
TEST(Balance, ScalesThatLeaveTheirRangeGoOnAsLogarithms) {
  for (int iterations : {1, 2, 4, 8, 16, 32}) {
    for (bool triangle : {false, true}) ExpectBalanced(24, triangle, iterations, 12, 1e-4);
  }
}

}  // namespace
}  // namespace heed
