#include "engine/ops/xielu.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/ops/random.h"

namespace heed {
namespace {

constexpr XieluNumbers kNumbers{.above = 0.8f, .below = 1.3f, .slope = 0.5f, .most = -0.25f};

double Expected(double x) {
  if (x > 0) return kNumbers.above * x * x + kNumbers.slope * x;
  return kNumbers.below * (std::expm1(std::min<double>(x, kNumbers.most)) - x) + kNumbers.slope * x;
}

TEST(Xielu, IsASquareAboveZeroAndAnExponentialBelow) {
  std::vector<float> x = Random(1).Normals(2 * 37, 3), y(x.size());
  x[0] = 0, x[1] = -200, x[2] = -0.1f, x[3] = kNumbers.most;
  Xielu(kNumbers, View(x, 2).As<const float>(), View(y, 2));
  std::vector<Bf16> half(x.size());
  Xielu(kNumbers, View(x, 2).As<const float>(), View(half, 2));
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = Expected(x[i]);
    EXPECT_NEAR(y[i], expected, 2e-7 * (1 + std::abs(x[i]) + x[i] * x[i])) << x[i];
    EXPECT_NEAR(ToFloat(half[i]), y[i], 0.004 * std::abs(y[i]) + 1e-7) << x[i];
  }
}

TEST(Xielu, MayBeInPlaceAndKeepsNaN) {
  std::vector<float> x = {1, -1, NAN, 2};
  Xielu(kNumbers, View(x, 1).As<const float>(), View(x, 1));
  EXPECT_NEAR(x[0], Expected(1), 1e-6);
  EXPECT_NEAR(x[1], Expected(-1), 1e-6);
  EXPECT_TRUE(std::isnan(x[2]));
}

}  // namespace
}  // namespace heed
