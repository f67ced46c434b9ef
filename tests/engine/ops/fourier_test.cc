#include "engine/ops/fourier.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "gtest/gtest.h"

namespace heed {
namespace {

constexpr int64_t kColumns = FourierTransform::kColumns;

// Of one column, after its definition.
double Defined(const std::vector<float>& re, const std::vector<float>& im, int64_t n, int64_t k,
               int64_t column, bool imaginary) {
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
    const double a = re[j * kColumns + column], b = im[j * kColumns + column];
    sum += imaginary ? a * std::sin(angle) + b * std::cos(angle) : a * std::cos(angle) - b * std::sin(angle);
  }
  return sum;
}

TEST(FourierTransform, OfAnyLengthIsItsDefinition) {
  for (int64_t n : {1, 2, 3, 4, 5, 7, 12, 16, 45, 64, 101, 128, 1000}) {
    const int64_t room = FourierTransform::Room(n);
    std::vector<float> re(room * kColumns, NAN), im(room * kColumns, NAN);
    for (int64_t i = 0; i < n * kColumns; ++i) {
      re[i] = std::sin(static_cast<float>(i * i % 977));
      im[i] = std::cos(static_cast<float>(i * i % 613));
    }
    const std::vector<float> re_in = re, im_in = im;
    FourierTransform(n).Run(re.data(), im.data());
    const double bound = 2e-6 * static_cast<double>(n) + 1e-6;
    for (int64_t k = 0; k < n; k += 1 + n / 50) {
      for (int64_t column : {0, 1, 15}) {
        ASSERT_NEAR(re[k * kColumns + column], Defined(re_in, im_in, n, k, column, false), bound) << n;
        ASSERT_NEAR(im[k * kColumns + column], Defined(re_in, im_in, n, k, column, true), bound) << n;
      }
    }
  }
}

TEST(FourierTransform, RoomAndTablesGrowWithTheLength) {
  for (int64_t n = 2; n < 3000; ++n) {
    ASSERT_LE(FourierTransform::Room(n - 1), FourierTransform::Room(n));
    ASSERT_LE(FourierTransform::Bytes(n - 1), FourierTransform::Bytes(n));
    ASSERT_GE(FourierTransform::Room(n), n);
  }
}

}  // namespace
}  // namespace heed
