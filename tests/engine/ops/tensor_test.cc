#include "engine/tensor/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using ::testing::ElementsAre;

TEST(Bf16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(ToBf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // a tie, and 0x3f80 is even
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);  // a tie, and 0x3f81 is odd
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);
  EXPECT_EQ(ToBf16(-std::numeric_limits<float>::max()).bits, 0xff80);  // minus infinity
}

TEST(Bf16, KeepsNanAndInfinity) {
  EXPECT_TRUE(std::isnan(ToFloat(ToBf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(
      std::isnan(ToFloat(ToBf16(std::bit_cast<float>(0x7f800001u)))));  // its upper half alone is infinity
  EXPECT_TRUE(std::isinf(ToFloat(ToBf16(std::numeric_limits<float>::infinity()))));
}

TEST(Bf16, EveryOneOfThemComesBackFromFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = ToFloat(Bf16{static_cast<uint16_t>(bits)});
    if (std::isnan(x)) continue;
    ASSERT_EQ(ToBf16(x).bits, bits);
  }
}

TEST(Tensor, NumbersOfAllFloatTypesAsFloat) {
  const double f64[] = {1.5, -2.25, 1e300};
  const uint16_t f16[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x7c00, 0x8000};
  const uint16_t bf16[] = {0x3f80, 0xc000};
  EXPECT_THAT(ToFloats({DType::kF64, {3}, f64}), ElementsAre(1.5f, -2.25f, HUGE_VALF));
  EXPECT_THAT(ToFloats({DType::kF16, {2, 3}, f16}),
              ElementsAre(1.0f, -2.0f, std::ldexp(1.0f, -24), 65504.0f, HUGE_VALF, -0.0f));
  EXPECT_THAT(ToFloats({DType::kBf16, {2}, bf16}), ElementsAre(1.0f, -2.0f));
  EXPECT_THAT(ToFloats({DType::kF32, {0, 4}, nullptr}), ElementsAre());
}

TEST(Tensor, IsReadAtAnyAddressAndFromAnyNumberOn) {
  char bytes[1 + 3 * sizeof(float)];
  const float numbers[] = {1, 2, 3};
  std::memcpy(bytes + 1, numbers, sizeof(numbers));
  float out[2];
  ToFloats({DType::kF32, {3}, bytes + 1}, 1, 2, out);
  EXPECT_THAT(out, ElementsAre(2, 3));
}

TEST(Tensor, ShapesAreWrittenAsLists) {
  EXPECT_EQ(ShapeText({768, 3072}), "[768, 3072]");
  EXPECT_EQ(ShapeText({}), "[]");
}

}  // namespace
}  // namespace heed
