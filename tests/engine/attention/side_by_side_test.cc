// What attentions beside one another are refused; that each is itself the definitions try.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/examples.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

using testing::HasSubstr;

std::string Refusal(const std::string& parts, Place place = Place::kEncoder) {
  const Layer layer({"full", "{}", place}, Precision::kF32);
  const Json options = {{"type", "side_by_side"}, {"parts", *ParseJson(parts, "parts")}};
  const auto made = NewRandomWeights([](const std::string&) { return true; });
  const auto refused = layer.New(options, WeightScope(*made), place);
  return refused.ok() ? "" : std::string(refused.status().message());
}

TEST(SideBySide, PartsAreAListOfAttentions) {
  EXPECT_THAT(Refusal("{}"), HasSubstr("layers[0].attention: parts: {} is no list of 2 to 8 attentions"));
  EXPECT_THAT(Refusal(R"([{"type": "full"}])"), HasSubstr("is no list of 2 to 8 attentions"));
  EXPECT_THAT(Refusal(R"([{"type": "full"}, 7])"), HasSubstr("layers[0].attention.parts[1]"));
  EXPECT_THAT(Refusal(R"([{"type": "full"}, {"type": "fuller"}])"),
              HasSubstr("layers[0].attention.parts[1]"));
  EXPECT_THAT(Refusal(R"([{"type": "full", "window": 3}, {"type": "full"}])"),
              HasSubstr("layers[0].attention.parts[0]"));
}

TEST(SideBySide, APartReadsItsProductsAlone) {
  EXPECT_EQ(Refusal(R"([{"type": "full"}, {"type": "full"}])"), "");
  EXPECT_THAT(Refusal(R"([{"type": "full"}, {"type": "sliding_window", "window": 4, "global_tokens": [0]}])"),
              HasSubstr("parts[1]: this attention reads more than its products"));
  EXPECT_THAT(Refusal(R"([{"type": "full"}, {"type": "rwkv_channel", "inner_size": 8}])", Place::kDecoder),
              HasSubstr("parts[1]: this attention reads more than its products, or changes"));
  EXPECT_THAT(Refusal(R"([{"type": "full"}, {"type": "full"}])", Place::kCross),
              HasSubstr("this attention reads no source"));
}

}  // namespace
}  // namespace heed
