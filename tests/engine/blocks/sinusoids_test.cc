#include "engine/blocks/sinusoids.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace heed {
namespace {

TEST(Sinusoids, AreThoseOfThePaperAtEveryDistance) {
  for (int64_t width : {1, 2, 7, 64}) {
    const Sinusoids sinusoids(width);
    for (int64_t position : {0, 1, 255, 256, 257, 1000, 65535, 65536, 65537, 1000003}) {
      std::vector<float> x(width, 1);
      sinusoids.Add(position, x.data());
      for (int64_t c = 0; c < width; ++c) {
        const double angle =
            static_cast<double>(position) / std::pow(10000.0, static_cast<double>(c - c % 2) / width);
        const double expected = 1 + (c % 2 == 0 ? std::sin(angle) : std::cos(angle));
        // Two roundings to f32, and that of an angle of so many turns in double.
        EXPECT_NEAR(x[c], expected, 3e-7 + 1e-15 * static_cast<double>(position)) << position << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace heed
