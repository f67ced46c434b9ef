// `relative_memory` far away and where distances are alike, against its definition; its table and its state.
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

AttentionExample Memory(const std::string& options) { return {"relative_memory", options, Place::kDecoder}; }

void ExpectTheDefinition(const std::string& options, int64_t n, const std::vector<int64_t>& rows) {
  ExpectDefinition(Whole(Layer(Memory(options), Precision::kF32), n), rows);
}

TEST(RelativeMemory, IsTheDefinitionFarAway) { ExpectTheDefinition(R"({"memory": 3000})", 3100, {3099}); }

// The panel of distances beyond clamp_length stands for many.
TEST(RelativeMemory, IsTheDefinitionWhereMostDistancesAreAlike) {
  for (const char* options :
       {R"({"memory": 300, "clamp_length": 31})", R"({"memory": 300, "clamp_length": 32})",
        R"({"memory": 300, "clamp_length": 33})", R"({"memory": 95, "clamp_length": 1})"}) {
    ExpectTheDefinition(options, 420, {0, 31, 32, 33, 64, 65, 94, 95, 128, 299, 300, 419});
  }
}

TEST(RelativeMemory, DistancesThatAreAlikeTakeNoMemory) {
  const Layer near(Memory(R"({"memory": 1000, "clamp_length": 20})"), Precision::kF32),
      far(Memory(R"({"memory": 60000, "clamp_length": 20})"), Precision::kF32);
  EXPECT_EQ(near.attention().constant_bytes(), far.attention().constant_bytes());
}

// They are seen from near and, part by part, from far away, till the memory reaches them no more.
TEST(RelativeMemory, RowsBeforeTheTextAreSeenWhileTheMemoryReachesThem) {
  const Layer layer(Memory(R"({"memory": 300, "null_memory": true})"), Precision::kF32);
  ExpectDefinition(Whole(layer, 420), {0, 1, 127, 128, 255, 298, 299, 300, 419});
  EXPECT_LE(DifferenceOfSteps(layer, 320, 280, 3), 1e-5);
  const Layer far(Memory(R"({"memory": 9000, "null_memory": true})"), Precision::kF32);
  ExpectDefinition(Whole(far, 30), {0, 29});
  EXPECT_LE(DifferenceOfSteps(far, 30, 20, 1), 1e-5);
}

TEST(RelativeMemory, AClampOfNoneIsNone) {
  const Layer none(Memory(R"({"memory": 50})"), Precision::kF32),
      zero(Memory(R"({"memory": 50, "clamp_length": 0})"), Precision::kF32);
  EXPECT_EQ(FirstDifference(Whole(none, 200).out(), Whole(zero, 200).out()), -1);
}

TEST(RelativeMemory, RowsWithoutAMemoryAreZeros) {
  const Layer layer(Memory(R"({"memory": 0})"), Precision::kF32);
  Passage passage(layer, 300);
  const auto run = layer.attention().Start();
  passage.ExtendBy(*run, 0, 290, 29);
  passage.ExtendBy(*run, 290, 300, 1);
  for (int64_t i = 0; i < 300; ++i) {
    for (int64_t c = 0; c < 32; ++c) ASSERT_EQ(passage.out().At(i, c), 0) << i;
  }
}

TEST(RelativeMemory, RefusesATableThatIsTooLarge) {
  const AttentionSetting setting{
      .width = 8192, .num_heads = 64, .causal = true, .where = "layers[0].attention"};
  const auto weights = Weights::Of({});
  const auto refusal = [&](const char* options) {
    const Json json = *ParseJson(options, "options");
    JsonFields fields(json, setting.where);
    return std::string(NewAttention(setting, fields, WeightScope(*weights)).status().message());
  };
  EXPECT_THAT(refusal(R"({"type": "relative_memory", "memory": 65536})"),
              testing::AllOf(testing::HasSubstr("layers[0].attention: memory: 65536"),
                             testing::HasSubstr("2147483648 bytes"), testing::HasSubstr("1073741824")));
  for (const char* enough : {R"({"type": "relative_memory", "memory": 32768})",
                             R"({"type": "relative_memory", "memory": 65536, "clamp_length": 1000})"})
    EXPECT_THAT(refusal(enough), testing::HasSubstr("q.weight")) << enough;
}

// Few rows of many keys attend part by part.
TEST(RelativeMemory, StepsWithAFarMemoryAreTheWhole) {
  const Layer layer(Memory(R"({"memory": 6000, "clamp_length": 5000})"), Precision::kF32);
  EXPECT_LE(DifferenceOfSteps(layer, 9000, 8980, 4), 1e-5);
}

TEST(RelativeMemory, TheStateStopsGrowing) {
  const Layer layer(Memory(R"({"memory": 130})"), Precision::kF32);
  EXPECT_EQ(layer.attention().StateBytes(300), layer.attention().StateBytes(1 << 20));
}

TEST(RelativeMemory, RefusesWhatCannotBe) {
  const std::vector<Refusal> refusals = {
      {Place::kDecoder, "{}", {"layers[0].attention", "memory"}},
      {Place::kDecoder, R"({"memory": -1})", {"memory", "-1", "below 0"}},
      {Place::kDecoder, R"({"memory": 8, "clamp_length": -1})", {"clamp_length", "-1", "below 0"}},
      {Place::kDecoder, R"({"memory": 8, "same_length": false})", {"same_length", "segments end"}},
      {Place::kEncoder, R"({"memory": 8})", {"decoders only"}},
      {Place::kCross, R"({"memory": 8})", {"decoders only"}},
  };
  const Layer layer(Memory(R"({"memory": 8})"), Precision::kF32);
  const auto weights = Weights::Of({});
  ExpectRefused(layer, WeightScope(*weights), refusals);
}

}  // namespace
}  // namespace heed
