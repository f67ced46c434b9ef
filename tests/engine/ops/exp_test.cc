#include "engine/ops/exp.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace heed {
namespace {

TEST(Exp, IsTheMathLibrarysAtEveryLength) {
  for (size_t n : {0, 1, 2, 7, 8, 9, 1000}) {
    std::vector<double> x(n), found(n);
    for (size_t i = 0; i < n; ++i) found[i] = x[i] = -0.7313 * static_cast<double>(i);
    Exp(found.data(), std::ssize(found));
    for (size_t i = 0; i < n; ++i) EXPECT_NEAR(found[i], std::exp(x[i]), 4e-16 * std::exp(x[i])) << x[i];
    EXPECT_TRUE(n == 0 || found[0] == 1);
  }
}

}  // namespace
}  // namespace heed
