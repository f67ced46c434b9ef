#include "engine/ops/scan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/ops/pack.h"
#include "gtest/gtest.h"
#include "tests/engine/ops/random.h"

namespace heed {
namespace {

TEST(EluPlusOne, IsXPlusOneAboveZeroAndExpBelow) {
  for (int64_t n : {1, 15, 16, 33, 100}) {
    std::vector<float> x = Random(n).Normals(2 * n, 4);
    x[0] = -1000;
    std::vector<float> y(x.size());
    std::vector<Bf16> half = ToBf16s(x), rounded(x.size());
    EluPlusOne(View(x, 2), View(y, 2));
    EluPlusOne(View(half, 2), View(rounded, 2));
    for (size_t i = 0; i < x.size(); ++i) {
      const auto exact = [](double v) { return v > 0 ? v + 1 : std::exp(v); };
      EXPECT_NEAR(y[i], exact(x[i]), 2e-7 * exact(x[i]) + 1e-37) << x[i];
      EXPECT_NEAR(ToFloat(rounded[i]), exact(ToFloat(half[i])), 0.004 * exact(ToFloat(half[i])) + 1e-37);
    }
  }
}

// Of features whose exponents lie hundreds apart, and below all that exp() of a float can tell from 0.
TEST(SoftmaxFeatures, AreExponentialsDividedByTheLargest) {
  for (int64_t n : {1, 16, 33, 100}) {
    for (double floor : {0.0, 1e-4}) {
      const std::vector<float> p = Random(n).Normals(3 * n, 4);
      const std::vector<float> halves = {0.5, 40, 500};
      std::vector<float> y(p.size()), exponents(3), again(3);
      std::vector<Bf16> rounded(p.size());
      const Matrix<const float> view{p.data(), 3, n, n};
      SoftmaxFeatures(view, halves.data(), static_cast<float>(floor), View(y, 3), exponents.data());
      SoftmaxFeatures(view, halves.data(), static_cast<float>(floor), View(rounded, 3), again.data());
      EXPECT_EQ(exponents, again);
      for (int64_t r = 0; r < 3; ++r) {
        double most = floor > 0 ? std::log(floor) : -1e30;
        for (int64_t f = 0; f < n; ++f) most = std::max<double>(most, p[r * n + f] - halves[r]);
        EXPECT_NEAR(exponents[r], most, 1e-6 * std::abs(most) + 1e-6);
        for (int64_t f = 0; f < n; ++f) {
          const double above = floor > 0 ? floor * std::exp(-exponents[r]) : 0;
          const double exact = std::exp(p[r * n + f] - halves[r] - exponents[r]) + above;
          EXPECT_NEAR(y[r * n + f], exact, 5e-5 * exact + 1e-37) << "row " << r;
          EXPECT_NEAR(ToFloat(rounded[r * n + f]), exact, 0.005 * exact + 1e-37) << "row " << r;
        }
      }
    }
  }
}

TEST(ReluFeatures, AreWhatIsAboveZeroAndTheFloor) {
  const std::vector<float> p = Random(5).Normals(2 * 21);
  std::vector<float> y(p.size());
  ReluFeatures({p.data(), 2, 21, 21}, 0.25f, View(y, 2));
  for (size_t i = 0; i < p.size(); ++i) EXPECT_EQ(y[i], std::max(p[i], 0.0f) + 0.25f);
}

TEST(ScaleByExponents, WeighsUpToARowsOwnColumn) {
  const std::vector<float> before = Random(6).Normals(3 * 40), columns = Random(7).Normals(40, 50),
                           rows = {60, 0, 200};
  std::vector<float> weights = before;
  ScaleByExponents({weights.data(), 3, 40, 40}, 20, columns.data(), rows.data());
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t c = 0; c <= 20 + r; ++c) {
      const double share = std::exp(std::min(columns[c] - rows[r], 0.0f));
      EXPECT_NEAR(weights[r * 40 + c], before[r * 40 + c] * share, 1e-6) << r << " " << c;
    }
  }
}

TEST(AddAndKeep, AddsInSharesAndKeepsWhatWas) {
  const std::vector<float> memory = Random(8).Normals(21), sum = Random(9).Normals(21);
  std::vector<float> added = memory, kept = sum;
  AddAndKeep(0.5f, {added.data(), 1, 21, 21}, 2, {kept.data(), 1, 21, 21});
  for (int64_t i = 0; i < 21; ++i) {
    EXPECT_NEAR(added[i], 0.5f * memory[i] + 2 * sum[i], 1e-6);
    EXPECT_EQ(kept[i], memory[i]);
  }
}

TEST(KeepCausal, CutsTheFutureAndSumsWhatItKeeps) {
  const std::vector<float> weights = Random(1).Normals(5 * 64);
  const Matrix<const float> view{weights.data(), 5, 64, 64};
  for (int64_t first : {0, 13, 32, 59}) {
    std::vector<float> kept(weights.size(), 7), sums(5, 1);
    KeepCausal(view, first, View(kept, 5), sums.data());
    for (int64_t r = 0; r < 5; ++r) {
      double sum = 1;
      for (int64_t c = 0; c < 64; ++c) {
        EXPECT_EQ(kept[r * 64 + c], c <= first + r ? weights[r * 64 + c] : 0) << r << " " << c;
        sum += kept[r * 64 + c];
      }
      EXPECT_NEAR(sums[r], sum, 1e-5);
    }
  }
}

TEST(KeepCausal, SumsWhatBf16Kept) {
  const std::vector<float> weights = Random(2).Normals(32);
  std::vector<Bf16> kept(32);
  float sum = 0, expected = 0;
  KeepCausal({weights.data(), 1, 32, 32}, 0, View(kept, 1), &sum);
  for (Bf16 x : kept) expected += ToFloat(x);
  EXPECT_EQ(sum, expected);
}

TEST(ScanStep, AddsAnOuterProductAndReadsTheResult) {
  for (int64_t cols : {16, 64, 80}) {
    Random random(cols);
    const std::vector<float> q = random.Normals(9), k = random.Normals(9), v = random.Normals(cols);
    std::vector<float> memory = random.Normals(9 * cols), out(cols);
    const std::vector<float> before = memory;
    ScanStep(q.data(), k.data(), v.data(), {memory.data(), 9, cols, cols}, out.data());
    for (int64_t c = 0; c < cols; ++c) {
      double sum = 0;
      for (int64_t f = 0; f < 9; ++f) {
        EXPECT_NEAR(memory[f * cols + c], before[f * cols + c] + k[f] * v[c], 1e-6);
        sum += q[f] * memory[f * cols + c];
      }
      EXPECT_NEAR(out[c], sum, 1e-5);
    }
  }
}

TEST(RowSums, OfRowsTimesAVectorAndOfColumns) {
  std::vector<float> x = Random(3).Normals(3 * 21), dots(3), columns(21, 2);
  const std::vector<float> y = Random(4).Normals(21);
  DotRows(View(x, 3), y.data(), dots.data());
  AddColumnSums(View(x, 3), columns.data());
  for (int64_t c = 0; c < 21; ++c) EXPECT_NEAR(columns[c], 2 + x[c] + x[21 + c] + x[42 + c], 1e-5);
  for (int64_t r = 0; r < 3; ++r) {
    double dot = 0;
    for (int64_t c = 0; c < 21; ++c) dot += x[r * 21 + c] * y[c];
    EXPECT_NEAR(dots[r], dot, 1e-5);
  }
  std::vector<float> shares(x.size());
  DivideRows(View(x, 3).As<const float>(), dots.data(), 100, View(shares, 3));
  EXPECT_NEAR(shares[5], x[5] / (dots[0] + 100), 1e-7);
}

TEST(RowSums, WeighedAndOfSquares) {
  for (int64_t cols : {1, 16, 64, 150}) {
    std::vector<float> x = Random(cols).Normals(3 * cols), columns(cols, 1), squares(3), scaled(x.size());
    std::vector<Bf16> rounded = ToBf16s(x);
    std::vector<float> of_rounded(cols);
    const std::vector<float> weights = {0.5, 2, -1};
    AddColumnSums(View(x, 3), columns.data(), weights.data());
    AddColumnSums(View(rounded, 3), of_rounded.data());
    SquaredLengths(View(x, 3), 0.5f, squares.data());
    ScaleRows(View(x, 3), weights.data(), View(scaled, 3));
    for (int64_t r = 0; r < 3; ++r) {
      double square = 0;
      for (int64_t c = 0; c < cols; ++c) square += x[r * cols + c] * x[r * cols + c] / 2;
      EXPECT_NEAR(squares[r], square, 1e-5 * square);
    }
    for (int64_t c = 0; c < cols; ++c) {
      EXPECT_NEAR(columns[c], 1 + 0.5 * x[c] + 2 * x[cols + c] - x[2 * cols + c], 1e-5);
      EXPECT_NEAR(of_rounded[c],
                  ToFloat(rounded[c]) + ToFloat(rounded[cols + c]) + ToFloat(rounded[2 * cols + c]), 1e-5);
      EXPECT_EQ(scaled[cols + c], 2 * x[cols + c]);
    }
  }
}

TEST(UnpackPairs, UndoesPackColumnsTransposed) {
  for (int64_t features : {1, 2, 9, 64}) {
    std::vector<Bf16> x = ToBf16s(Random(features).Normals(70 * features));
    std::vector<Bf16> packed(72 * (features + 1)), plain(72 * (features + 1));
    PackColumns(View(x, 70), 0, 72, packed.data());
    UnpackPairs(packed.data(), 72, {DType::kBf16, plain.data(), features, 70, 72});
    for (int64_t r = 0; r < 70; ++r) {
      for (int64_t f = 0; f < features; ++f) EXPECT_EQ(plain[f * 72 + r].bits, x[r * features + f].bits);
    }
  }
}

}  // namespace
}  // namespace heed
