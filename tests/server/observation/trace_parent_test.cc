// What is a traceparent, and what is none.
#include "server/observation/trace_parent.h"

#include <array>
#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace heed {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736", kSpan = "00f067aa0ba902b7";
const std::string kGood = "00-" + kTrace + "-" + kSpan + "-01";

TEST(TraceParent, SaysTraceSpanAndWhetherItIsSampled) {
  const auto parent = ParseTraceParent(kGood);
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(parent->trace_id, (std::array<uint8_t, 16>{0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3,
                                                       0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36}));
  EXPECT_EQ(parent->span_id, (std::array<uint8_t, 8>{0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7}));
  EXPECT_TRUE(parent->sampled);
}

TEST(TraceParent, OfItsFlagsTheLowestCounts) {
  const std::string stem = kGood.substr(0, 53);
  for (const char* flags : {"01", "03", "ff"}) EXPECT_TRUE(ParseTraceParent(stem + flags)->sampled) << flags;
  for (const char* flags : {"00", "02", "fe"}) EXPECT_FALSE(ParseTraceParent(stem + flags)->sampled) << flags;
}

TEST(TraceParent, OfALaterVersionIsReadAsFarAsItIsKnown) {
  const std::string rest = kGood.substr(2);
  for (const std::string& header : {"01" + rest, "fe" + rest + "-more", "cc" + rest + "-"})
    EXPECT_TRUE(ParseTraceParent(header).has_value()) << header;
}

TEST(TraceParent, OfAnotherFormIsNone) {
  const std::string zeros(32, '0'), rest = kGood.substr(2);
  for (const std::string& header : {std::string(),
                                    std::string("00"),
                                    kGood.substr(0, 54),
                                    kGood + "1",
                                    kGood + "-more",
                                    " " + kGood,
                                    kGood + " ",
                                    "ff" + rest,
                                    "0g" + rest,
                                    "01" + rest + "more",
                                    "00_" + kTrace + "-" + kSpan + "-01",
                                    "00-" + kTrace + "_" + kSpan + "-01",
                                    "00-" + kTrace + "-" + kSpan + "_01",
                                    "00-" + zeros + "-" + kSpan + "-01",
                                    "00-" + kTrace + "-" + zeros.substr(16) + "-01",
                                    "00-" + std::string(32, 'A') + "-" + kSpan + "-01",
                                    "00-" + kTrace + "-" + std::string(16, 'x') + "-01",
                                    "00-" + kTrace + "-" + kSpan + "-0x",
                                    std::string(55, '-'),
                                    std::string(55, '\0'),
                                    std::string(9000, '0')}) {
    EXPECT_FALSE(ParseTraceParent(header).has_value()) << header;
  }
}

}  // namespace
}  // namespace heed
