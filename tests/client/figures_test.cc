#include "client/cli/figures.h"

#include "gtest/gtest.h"

namespace heed::cli {
namespace {

TEST(Figures, HaveThreeDigitsThatCount) {
  EXPECT_EQ(RateText(0), "0");
  EXPECT_EQ(RateText(0.004), "0.00");
  EXPECT_EQ(RateText(0.25), "0.25");
  EXPECT_EQ(RateText(9.996), "10.0");
  EXPECT_EQ(RateText(12.54), "12.5");
  EXPECT_EQ(RateText(99.96), "100");
  EXPECT_EQ(RateText(999.4), "999");
  EXPECT_EQ(RateText(999.6), "1.00k");
  EXPECT_EQ(RateText(12'345), "12.3k");
  EXPECT_EQ(RateText(3e6), "3.00M");
  EXPECT_EQ(RateText(7.5e12), "7500G");
}

TEST(Figures, BytesAreWholeAndDecimal) {
  EXPECT_EQ(BytesText(0), "0");
  EXPECT_EQ(BytesText(512), "512B");
  EXPECT_EQ(BytesText(1000), "1.00kB");
  EXPECT_EQ(BytesText(2'400'000), "2.40MB");
  EXPECT_EQ(BytesText(137e9), "137GB");
}

TEST(Figures, TimesHaveTheUnitThatFits) {
  EXPECT_EQ(SecondsText(0), "0");
  EXPECT_EQ(SecondsText(0.00085), "850us");
  EXPECT_EQ(SecondsText(0.0125), "12.5ms");
  EXPECT_EQ(SecondsText(1.234), "1.23s");
  EXPECT_EQ(SecondsText(600), "600s");
  EXPECT_EQ(UptimeText(0.9), "0");
  EXPECT_EQ(UptimeText(11'525.7), "3h12m5s");
}

}  // namespace
}  // namespace heed::cli
