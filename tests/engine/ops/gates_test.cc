#include "engine/ops/gates.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/ops/random.h"

namespace heed {
namespace {

Matrix<float> Floats(std::vector<float>& numbers, int64_t rows) { return View(numbers, rows).As<float>(); }

double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

TEST(ConvolveCausal, SumsTheTapsOfEachNumber) {
  for (int64_t n : {1, 16, 33}) {
    for (int64_t taps : {1, 4}) {
      std::vector<float> x = Random(n).Normals((taps + 4) * n), kernel = Random(2).Normals(taps * n),
                         bias = Random(3).Normals(n), y(5 * n), silu(5 * n);
      ConvolveCausal(Floats(x, taps + 4), Floats(kernel, taps), bias.data(), Activation::kNone, Floats(y, 5));
      ConvolveCausal(Floats(x, taps + 4), Floats(kernel, taps), bias.data(), Activation::kSilu,
                     Floats(silu, 5));
      for (int64_t i = 0; i < 5 * n; ++i) {
        double sum = bias[i % n];
        for (int64_t tap = 0; tap < taps; ++tap) sum += double{kernel[tap * n + i % n]} * x[i + tap * n];
        EXPECT_NEAR(y[i], sum, 1e-6);
        EXPECT_NEAR(silu[i], sum / (1 + std::exp(-sum)), 1e-6);
      }
    }
  }
}

TEST(Sigmoid, IsOneOverOnePlusExp) {
  std::vector<float> x = Random(1).Normals(2 * 21, 20), y(x.size());
  x[0] = -200, x[1] = 200;
  std::vector<Bf16> half = ToBf16s(x);
  for (const Rows& from : {View(x, 2), View(half, 2)}) {
    Sigmoid(from, Floats(y, 2));
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = 1 / (1 + std::exp(-double{from.dtype == DType::kF32 ? x[i] : ToFloat(half[i])}));
      EXPECT_NEAR(y[i], exact, 1e-6 * exact + 1e-37) << x[i];
    }
  }
}

// Relative to what they are, however small.
TEST(TimeSteps, AreLogOfOnePlusExp) {
  std::vector<float> x = Random(1).Normals(400, 8), bias(200, 0.5f), y(x.size());
  x[0] = -80, x[1] = 100, x[2] = -0.5f;
  TimeSteps(View(x, 2), bias.data(), {}, Floats(y, 2));
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = Softplus(double{x[i] + 0.5f});
    EXPECT_NEAR(y[i], exact, 5e-7 * exact) << x[i];
  }
  TimeSteps(View(x, 2), bias.data(), {0.25f, 2}, Floats(y, 2));
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(y[i], std::clamp(Softplus(double{x[i] + 0.5f}), 0.25, 2.0), 1e-6) << x[i];
}

TEST(BoundedFadings, StayAboveTheExponentialOfTheirBound) {
  std::vector<float> x = Random(1).Normals(3 * 21, 4), scales = Random(2).Normals(21), bias(21, -0.25f),
                     y(x.size());
  x[0] = -400, x[1] = 400;
  std::vector<Bf16> half = ToBf16s(x);
  for (const Rows& from : {View(x, 3), View(half, 3)}) {
    BoundedFadings(from, scales.data(), bias.data(), -5, Floats(y, 3));
    for (size_t i = 0; i < x.size(); ++i) {
      const double moved = double{from.dtype == DType::kF32 ? x[i] : ToFloat(half[i])} - 0.25;
      EXPECT_NEAR(y[i], std::exp(-5 / (1 + std::exp(-scales[i % 21] * moved))), 1e-6) << x[i];
    }
  }
}

TEST(Fadings, AreExponentialsOfRatesAndNeverAboveOne) {
  std::vector<float> x = Random(1).Normals(3 * 20, 3), rates = Random(2).Normals(20);
  for (float& number : x) number = std::abs(number);
  for (float& rate : rates) rate = -std::abs(rate);
  rates[0] = -1000, rates[1] = 1;
  std::vector<float> y = x;
  Fadings(Floats(y, 3), rates.data(), Floats(y, 3));
  for (int64_t i = 0; i < 60; ++i) {
    const double exact = std::exp(std::min(0.0, double{rates[i % 20]} * x[i]));
    EXPECT_NEAR(y[i], exact, 1e-6 * exact + 1e-37);
  }
}

TEST(GateRows, MultipliesByTheGatesActivation) {
  std::vector<float> gate = Random(1).Normals(3 * 21), x = Random(2).Normals(3 * 21);
  std::vector<Bf16> half = ToBf16s(gate), rounded(x.size());
  std::vector<float> y = x;
  GateRows(Activation::kSilu, View(gate, 3), Floats(y, 3), View(y, 3));
  GateRows(Activation::kNone, View(half, 3), Floats(x, 3), View(rounded, 3));
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], x[i] * gate[i] / (1 + std::exp(-gate[i])), 1e-6);
    EXPECT_NEAR(ToFloat(rounded[i]), x[i] * ToFloat(half[i]), 0.004 * std::abs(x[i] * gate[i]));
  }
}

TEST(MultiplyBySigmoid, TakesSharesOfNumbersInTheirOwnType) {
  std::vector<float> gate = Random(1).Normals(3 * 21), x = Random(2).Normals(3 * 21), y = x;
  std::vector<Bf16> half = ToBf16s(gate), rounded = ToBf16s(x), out = rounded;
  MultiplyBySigmoid(View(gate, 3), View(y, 3));
  MultiplyBySigmoid(View(half, 3), View(out, 3));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto share = [](double g) { return 1 / (1 + std::exp(-g)); };
    EXPECT_NEAR(y[i], x[i] * share(gate[i]), 1e-6);
    const double exact = ToFloat(rounded[i]) * share(ToFloat(half[i]));
    EXPECT_NEAR(ToFloat(out[i]), exact, 0.004 * std::abs(exact));
  }
}

TEST(MultiplyBySigmoid, TakesAGateForSomeNeighbours) {
  std::vector<float> gate = Random(1).Normals(3 * 4), x = Random(2).Normals(3 * 4 * 19), y = x;
  std::vector<Bf16> half = ToBf16s(gate), rounded = ToBf16s(x), out = rounded;
  MultiplyBySigmoid(View(gate, 3), View(y, 3));
  MultiplyBySigmoid(View(half, 3), View(out, 3));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto share = [](double g) { return 1 / (1 + std::exp(-g)); };
    EXPECT_NEAR(y[i], x[i] * share(gate[i / 19]), 1e-6);
    const double exact = ToFloat(rounded[i]) * share(ToFloat(half[i / 19]));
    EXPECT_NEAR(ToFloat(out[i]), exact, 0.004 * std::abs(exact));
  }
}

TEST(MultiplyBySoftplus, TakesAGateForSomeNeighbours) {
  std::vector<float> gate = Random(1).Normals(3 * 4), x = Random(2).Normals(3 * 4 * 19), y = x;
  gate[5] = 90;  // beyond what exp holds
  std::vector<Bf16> half = ToBf16s(gate), rounded = ToBf16s(x), out = rounded;
  MultiplyBySoftplus(View(gate, 3), View(y, 3));
  MultiplyBySoftplus(View(half, 3), View(out, 3));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto factor = [](double g) { return g > 30 ? g : std::log1p(std::exp(g)); };
    EXPECT_NEAR(y[i], x[i] * factor(gate[i / 19]), 1e-6 * (1 + std::abs(y[i])));
    const double exact = ToFloat(rounded[i]) * factor(ToFloat(half[i / 19]));
    EXPECT_NEAR(ToFloat(out[i]), exact, 0.004 * std::abs(exact));
  }
}

TEST(ScaleToWhatFades, KeepsTheSumOfSquares) {
  std::vector<float> fadings = {0, 1, 0.5f, 0.999f, 0.25f, 1e-4f}, x = Random(1).Normals(6), y = x;
  ScaleToWhatFades(Floats(fadings, 2), Floats(y, 2));
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(y[i], x[i] * std::sqrt(1 - double{fadings[i]} * fadings[i]), 1e-6) << fadings[i];
}

TEST(ScaleToUnit, GivesRowsALength) {
  std::vector<float> x = Random(1).Normals(2 * 21), y = x;
  std::fill(y.begin(), y.begin() + 21, 0.0f);
  ScaleToUnit(0.5f, 1e-6f, Floats(y, 2));
  double square = 0;
  for (int64_t i = 21; i < 42; ++i) square += double{x[i]} * x[i];
  for (int64_t i = 0; i < 21; ++i) EXPECT_EQ(y[i], 0);
  for (int64_t i = 21; i < 42; ++i) EXPECT_NEAR(y[i], 0.5 * x[i] / std::sqrt(square + 1e-6), 1e-6);
}

}  // namespace
}  // namespace heed
