// `relative_segments` with the types that a request gives, against its definition; and what it refuses.
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

const std::vector<int64_t> kRows = {0, 1, 2, 127, 128, 129, 254, 255, 256, 299};

// Types 0, 1 and 2, in turns of growing length.
std::vector<int32_t> Types(int64_t n) {
  std::vector<int32_t> types;
  for (int32_t turn = 0; std::ssize(types) < n; ++turn) types.insert(types.end(), 1 + 3 * turn, turn % 3);
  types.resize(n);
  return types;
}

void ExpectTheDefinitionOfTypes(const AttentionExample& example, Precision precision) {
  const Layer layer(example, precision);
  Passage passage(layer, 300);
  passage.Type(Types(300), Types(passage.source()));
  passage.Extend(*layer.attention().Start(), 0, 300);
  ExpectDefinition(passage, kRows);
}

TEST(RelativeSegments, AreTheDefinitionsOfTypesThatARequestGives) {
  for (const AttentionExample& example : AttentionExamples()) {
    if (example.type == "relative_segments") ExpectTheDefinitionOfTypes(example, Precision::kF32);
  }
}

TEST(RelativeSegments, OfOneTypeAreThoseOfNone) {
  const Layer layer({"relative_segments", R"({"max_distance": 500})", Place::kEncoder}, Precision::kF32);
  for (const int32_t type : {0, 1, 7}) {
    Passage passage(layer, 200);
    passage.Type(std::vector<int32_t>(200, type), std::vector<int32_t>(200, type));
    passage.Extend(*layer.attention().Start(), 0, 200);
    EXPECT_EQ(FirstDifference(passage.out(), Whole(layer, 200).out()), -1) << type;
  }
}

TEST(RelativeSegments, AreOfNoMoreRowsThanTheTableHasDistances) {
  const auto longest = [](const RowSpacing& spacing, const char* options) {
    const AttentionExample example = Pooled(spacing, {"relative_segments", options, Place::kEncoder});
    return Layer(example, Precision::kF32).attention().max_tokens();
  };
  EXPECT_EQ(longest({}, R"({"max_distance": 511})"), 512);
  EXPECT_EQ(longest({.apart = 1}, R"({"max_distance": 511})"), 513);
  EXPECT_EQ(longest({.apart = 1, .step = 4}, R"({"max_distance": 511})"), 1 + 127 + 1);
  EXPECT_EQ(longest({.step = int64_t{1} << 40}, R"({"max_distance": 511})"), 1);
}

TEST(RelativeSegments, RefuseWhatMakesNoSense) {
  const Layer layer({"relative_segments", R"({"max_distance": 100})", Place::kEncoder}, Precision::kF32);
  ExpectRefused(layer, layer.scope(),
                {{Place::kEncoder, R"({})", {"max_distance is missing"}},
                 {Place::kEncoder, R"({"max_distance": 0})", {"max_distance: 0 is below 1"}},
                 {Place::kEncoder, R"({"max_distance": 65537})", {"max_distance: 65537", "above 65536"}},
                 {Place::kEncoder, R"({"max_distance": 9, "any_segment": -1})", {"any_segment: -1"}},
                 {Place::kEncoder, R"({"max_distance": 9, "clamp": 3})", {"unknown key \"clamp\""}},
                 {Place::kDecoder, R"({"max_distance": 9})", {"for encoders only"}},
                 {Place::kCross, R"({"max_distance": 9})", {"for encoders only"}}});
}

TEST(RelativeSegments, RefuseATableThatIsTooLarge) {
  const AttentionSetting setting{.width = 8192, .num_heads = 64, .where = "layers[0].attention"};
  const auto weights = Weights::Of({});
  const Json json = {{"type", "relative_segments"}, {"max_distance", 65536}};
  JsonFields fields(json, setting.where);
  const auto refused = NewAttention(setting, fields, WeightScope(*weights));
  EXPECT_THAT(refused.status().message(), testing::HasSubstr("max_distance: 65536 makes a table of 4295"));
}

}  // namespace
}  // namespace heed
