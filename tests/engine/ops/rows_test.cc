#include "engine/ops/rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/ops/random.h"

namespace heed {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kWidths[] = {1, 3, 16, 17, 64, 100, 384, 1000};

std::vector<double> ExactNorm(const float* x, int64_t n, bool centred, float eps) {
  double mean = 0, square = 0;
  for (int64_t i = 0; centred && i < n; ++i) mean += x[i] / double(n);
  for (int64_t i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean) / n;
  std::vector<double> y(n);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) / std::sqrt(square + eps);
  return y;
}

TEST(Norms, AgreeWithDoubleForAnyWidth) {
  for (int64_t n : kWidths) {
    Random random(n);
    std::vector<float> x = random.Normals(3 * n, 4), weight = random.Normals(n), bias = random.Normals(n);
    for (float& v : x) v += 5;
    std::vector<float> layer(3 * n), rms(3 * n);
    LayerNorm(View(x, 3).As<const float>(), weight.data(), bias.data(), 1e-5f, View(layer, 3));
    RmsNorm(View(x, 3).As<const float>(), weight.data(), 1e-5f, View(rms, 3));
    for (int64_t r = 0; r < 3; ++r) {
      const std::vector<double> exact_layer = ExactNorm(&x[r * n], n, true, 1e-5f);
      const std::vector<double> exact_rms = ExactNorm(&x[r * n], n, false, 1e-5f);
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_NEAR(layer[r * n + i], exact_layer[i] * weight[i] + bias[i], 1e-5) << n;
        ASSERT_NEAR(rms[r * n + i], exact_rms[i] * weight[i], 1e-5) << n;
      }
    }
  }
}

TEST(Norms, InPlaceWithoutBiasAndInBf16) {
  Random random(1);
  const std::vector<float> x = random.Normals(2 * 70), weight = random.Normals(70);
  std::vector<float> y(x.size()), in_place = x;
  std::vector<Bf16> half(x.size());
  const Matrix<const float> rows{x.data(), 2, 70, 70};
  LayerNorm(rows, weight.data(), nullptr, 1e-5f, View(y, 2));
  LayerNorm(View(in_place, 2).As<const float>(), weight.data(), nullptr, 1e-5f, View(in_place, 2));
  LayerNorm(rows, weight.data(), nullptr, 1e-5f, View(half, 2));
  EXPECT_EQ(in_place, y);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(half[i].bits, ToBf16(y[i]).bits);
}

TEST(Norms, ARowOfEqualNumbersIsItsBias) {
  std::vector<float> x(48, 3), weight(48, 2), bias(48, 0.5), y(48);
  LayerNorm(View(x, 1).As<const float>(), weight.data(), bias.data(), 1e-5f, View(y, 1));
  for (float v : y) EXPECT_NEAR(v, 0.5, 1e-6);
}

// Largest error of an activation over [-30, 30], relative to the exact value or, where that is less, to
// `least`.
double LargestError(Activation activation, double (*exact)(double), double least) {
  std::vector<float> x, y;
  for (double v = -30; v <= 30; v += 1.0 / 1024) x.push_back(static_cast<float>(v));
  y = x;
  Activate(activation, View(y, 1));
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double e = exact(x[i]);
    largest = std::max(largest, std::abs(y[i] - e) / std::max(std::abs(e), least));
  }
  return largest;
}

TEST(Activations, AgreeWithDouble) {
  EXPECT_EQ(LargestError(Activation::kRelu, [](double x) { return x > 0 ? x : 0; }, 1e-9), 0);
  EXPECT_LT(
      LargestError(Activation::kGelu, [](double x) { return x * std::erfc(-x * M_SQRT1_2) / 2; }, 0.3), 1e-6);
  EXPECT_LT(LargestError(Activation::kSilu, [](double x) { return x / (1 + std::exp(-x)); }, 1e-9), 1e-6);
  auto by_tanh = [](double x) {
    return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  };
  EXPECT_LT(LargestError(Activation::kGeluTanh, by_tanh, 1e-3), 2e-6);
  auto selu = [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); };
  EXPECT_LT(LargestError(Activation::kSelu, selu, 0.3), 1e-6);
  EXPECT_LT(LargestError(Activation::kTanh, [](double x) { return std::tanh(x); }, 1e-9), 1e-6);
  auto quick = [](double x) { return x / (1 + std::exp(-1.702 * x)); };
  EXPECT_LT(LargestError(Activation::kQuickGelu, quick, 1e-3), 2e-6);
  EXPECT_LT(LargestError(Activation::kRelu2, [](double x) { return x > 0 ? x * x : 0; }, 1e-9), 1e-7);
}

TEST(Activations, TheTailOfGeluIsRelativelyRight) {
  for (float v = -5.39f; v < -1; v += 0.01f) {
    std::vector<float> x = {v};
    Activate(Activation::kGelu, View(x, 1));
    const double exact = v * std::erfc(-v * M_SQRT1_2) / 2;
    EXPECT_NEAR(x[0] / exact, 1, 4e-6) << v;
  }
}

TEST(Activations, HugeNumbersAreTameAndNanStays) {
  for (Activation activation : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                                Activation::kSilu, Activation::kQuickGelu}) {
    std::vector<float> x = {-1e30f, 1e30f, kNan, 0.0f, -90.0f};
    Activate(activation, View(x, 1));
    EXPECT_NEAR(x[0], 0, 1e-7);
    EXPECT_FLOAT_EQ(x[1], 1e30f);
    EXPECT_TRUE(std::isnan(x[2]));
    EXPECT_EQ(x[3], 0);
    EXPECT_NEAR(x[4], 0, 1e-30);
  }
}

TEST(Activations, SeluOfHugeNumbersStaysAboveItsLeast) {
  std::vector<float> x = {-1e30f, 1e30f, kNan, 0.0f, -90.0f};
  Activate(Activation::kSelu, View(x, 1));
  EXPECT_NEAR(x[0], -1.7580993, 1e-6);
  EXPECT_FLOAT_EQ(x[1], 1.0507010e30f);
  EXPECT_TRUE(std::isnan(x[2]));
  EXPECT_EQ(x[3], 0);
  EXPECT_NEAR(x[4], -1.7580993, 1e-6);
}

TEST(Activations, TanhOfHugeNumbersIsOneAndNanStays) {
  std::vector<float> x = {-1e30f, 1e30f, kNan, 0.0f, -90.0f, 1e-20f, -0.0f};
  Activate(Activation::kTanh, View(x, 1));
  EXPECT_EQ(x[0], -1);
  EXPECT_EQ(x[1], 1);
  EXPECT_TRUE(std::isnan(x[2]));
  EXPECT_EQ(x[3], 0);
  EXPECT_EQ(x[4], -1);
  EXPECT_FLOAT_EQ(x[5], 1e-20f);
  EXPECT_TRUE(std::signbit(x[6]));
}

TEST(Activations, ReluSquaredOfNumbersBelowZeroIsZeroAndNanStays) {
  std::vector<float> x = {-1e30f, 1e10f, kNan, 0.0f, -0.5f};
  Activate(Activation::kRelu2, View(x, 1));
  EXPECT_EQ(x[0], 0);
  EXPECT_FLOAT_EQ(x[1], 1e20f);
  EXPECT_TRUE(std::isnan(x[2]));
  EXPECT_EQ(x[3], 0);
  EXPECT_EQ(x[4], 0);
}

TEST(Convert, RoundsAsOneNumberAloneDoes) {
  Random random(2);
  std::vector<float> x = random.Normals(2 * 37, 100);
  x[5] = kNan, x[6] = kInf, x[7] = -0.0f, x[8] = 3.4e38f;
  std::vector<Bf16> half(x.size());
  Convert(View(x, 2), View(half, 2));
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(ToFloat(half[i])));
    } else {
      EXPECT_EQ(half[i].bits, ToBf16(x[i]).bits) << x[i];
    }
  }
  std::vector<float> back(x.size());
  Convert(View(half, 2), View(back, 2));
  for (size_t i = 0; i < x.size(); ++i) {
    const float expected = ToFloat(half[i]);
    EXPECT_EQ(std::memcmp(&back[i], &expected, sizeof(float)), 0);
  }
}

TEST(Rows, AddAndScaleKeepTheirStride) {
  std::vector<float> x(2 * 20, 1), y(2 * 40, 2);
  Add({x.data(), 2, 19, 20}, {y.data(), 2, 19, 40});
  Scale(10, {y.data(), 2, 19, 40});
  for (int i = 0; i < 80; ++i) EXPECT_EQ(y[i], i % 40 < 19 ? 30 : 2);
}

void TurnExactly(std::vector<double>& head, int dims, double theta, bool interleaved, int64_t position) {
  for (int t = 0; t < dims / 2; ++t) {
    double& a = head[interleaved ? 2 * t : t];
    double& b = head[interleaved ? 2 * t + 1 : t + dims / 2];
    const double angle = position * std::pow(theta, -2.0 * t / dims), c = std::cos(angle),
                 s = std::sin(angle);
    const double x = a, y = b;
    a = x * c - y * s;
    b = y * c + x * s;
  }
}

TEST(Norms, OfRowsInPlaceAreThoseOfFloats) {
  Random random(4);
  const std::vector<float> numbers = random.Normals(2 * 70), weight = random.Normals(70),
                           bias = random.Normals(70);
  const std::vector<Bf16> half = ToBf16s(numbers);
  std::vector<float> floats;
  for (Bf16 v : half) floats.push_back(ToFloat(v));
  for (bool layer : {false, true}) {
    std::vector<float> expected(floats), in_place = floats;
    std::vector<Bf16> halves = half;
    if (layer) {
      LayerNorm(View(expected, 2).As<const float>(), weight.data(), bias.data(), 1e-5f, View(expected, 2));
      LayerNorm(View(in_place, 2), weight.data(), bias.data(), 1e-5f);
      LayerNorm(View(halves, 2), weight.data(), bias.data(), 1e-5f);
    } else {
      RmsNorm(View(expected, 2).As<const float>(), weight.data(), 1e-5f, View(expected, 2));
      RmsNorm(View(in_place, 2), weight.data(), 1e-5f);
      RmsNorm(View(halves, 2), weight.data(), 1e-5f);
    }
    EXPECT_EQ(in_place, expected);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(halves[i].bits, ToBf16(expected[i]).bits) << i;
  }
}

TEST(ClampTo, KeepsWhatIsWithinAndNan) {
  std::vector<float> x = {-3, -2, 0.5f, 2, 7, kNan, kInf, -kInf, 1, 1, 1, 1, 1, 1, 1, 1, -9};
  std::vector<Bf16> half = ToBf16s(x);
  ClampTo(2, View(x, 1));
  ClampTo(2, View(half, 1));
  const float expected[] = {-2, -2, 0.5f, 2, 2, kNan, 2, -2, 1, 1, 1, 1, 1, 1, 1, 1, -2};
  for (size_t i = 0; i < x.size(); ++i) {
    if (i == 5) {
      EXPECT_TRUE(std::isnan(x[i]) && std::isnan(ToFloat(half[i])));
    } else {
      EXPECT_EQ(x[i], expected[i]);
      EXPECT_EQ(ToFloat(half[i]), expected[i]);
    }
  }
}

TEST(SoftCap, IsATanhOfSmallAndOfHugeNumbers) {
  std::vector<float> x;
  for (double size = 1e-12; size < 1e12; size *= 1.01) {
    x.push_back(static_cast<float>(size));
    x.push_back(static_cast<float>(-size));
  }
  std::vector<float> y = x;
  SoftCap(0.25f, 30, {y.data(), 1, std::ssize(y), std::ssize(y)});
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = 30 * std::tanh(0.25 * x[i]);
    EXPECT_NEAR(y[i], exact, 1e-6 * std::abs(exact)) << x[i];
  }
  std::vector<float> special = {kNan, kInf, -kInf, 0};
  SoftCap(1, 5, {special.data(), 1, 4, 4});
  EXPECT_TRUE(std::isnan(special[0]));
  EXPECT_EQ(special[1], 5);
  EXPECT_EQ(special[2], -5);
  EXPECT_EQ(special[3], 0);
}

TEST(Rotary, MultipliesWhatItTurnsByItsFactor) {
  std::vector<float> x = Random(5).Normals(3 * 10), y = x;
  const std::vector<double> frequencies = {0.5, 0.01, 3};
  const std::vector<int64_t> positions = {0, 7, 1000};
  Rotary(frequencies, false).Apply(View(x, 3), 1, positions);
  Rotary(frequencies, false, 1.25).Apply(View(y, 3), 1, positions);
  for (int r = 0; r < 3; ++r) {
    for (int i = 0; i < 10; ++i)
      EXPECT_NEAR(y[10 * r + i], x[10 * r + i] * (i < 6 ? 1.25 : 1), 1e-6) << r << " " << i;
  }
}

TEST(Rotary, TurnsEveryHeadByItsRowsPosition) {
  const std::vector<int64_t> positions = {0, 1, 255, 256, 70000, 3};
  for (auto [heads, head_dim, dims] :
       {std::array{1, 8, 8}, {3, 40, 40}, {2, 64, 32}, {2, 10, 6}, {1, 256, 256}}) {
    for (bool interleaved : {false, true}) {
      const int64_t cols = heads * head_dim, rows = positions.size();
      std::vector<float> x = Random(3).Normals(rows * cols), y = x;
      std::vector<Bf16> half = ToBf16s(x);
      const Rotary rotary(RotaryFrequencies(dims, 10000), interleaved);
      rotary.Apply(View(y, rows), heads, positions);
      rotary.Apply(View(half, rows), heads, positions);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t first = r * cols + h * head_dim;
          std::vector<double> head(&x[first], &x[first] + head_dim);
          TurnExactly(head, dims, 10000, interleaved, positions[r]);
          for (int64_t i = 0; i < head_dim; ++i) {
            ASSERT_NEAR(y[first + i], head[i], 1e-6);
            ASSERT_NEAR(ToFloat(half[first + i]), head[i], 0.03);
          }
        }
      }
    }
  }
}

TEST(ArgMax, TheFirstOfTheLargestAndNeverNan) {
  for (int64_t n : kWidths) {
    std::vector<float> x = Random(n).Normals(n);
    x[n / 2] = x[n - 1] = 50;
    EXPECT_EQ(ArgMax(x.data(), n), n / 2);
    if (n < 3) continue;
    x[0] = kNan;
    EXPECT_EQ(ArgMax(x.data(), n), n / 2);
  }
  const float below[] = {kNan, -kInf, -kInf}, none[] = {kNan, kNan}, negative[17] = {-3, -2, -5};
  EXPECT_EQ(ArgMax(below, 3), 1);
  EXPECT_EQ(ArgMax(none, 2), 0);
  EXPECT_EQ(ArgMax(negative, 3), 1);
}

TEST(LogSumExp, AgreesWithDouble) {
  for (int64_t n : {1, 5, 16, 1000, 50000}) {
    const std::vector<float> x = Random(n).Normals(n, 10);
    double sum = 0;
    for (float v : x) sum += std::exp(double{v});
    EXPECT_NEAR(LogSumExp(x.data(), n), std::log(sum), 1e-6);
  }
  const float masked[] = {-kInf, 2, -kInf}, none[] = {-kInf, -kInf};
  EXPECT_DOUBLE_EQ(LogSumExp(masked, 3), 2);
  EXPECT_EQ(LogSumExp(none, 2), -kInf);
}

TEST(AllFinite, SeesOneBadNumberAnywhere) {
  for (int64_t n : kWidths) {
    std::vector<float> x = Random(n).Normals(n, 1e38f);
    EXPECT_TRUE(AllFinite(x.data(), n));
    for (float bad : {kNan, kInf, -kInf}) {
      for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
        const float good = std::exchange(x[at], bad);
        EXPECT_FALSE(AllFinite(x.data(), n));
        x[at] = good;
      }
    }
  }
}

TEST(RowKernels, SayWhichVectorsTheyUse) { EXPECT_FALSE(RowKernelTarget().empty()); }

}  // namespace
}  // namespace heed
