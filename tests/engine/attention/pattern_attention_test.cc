// What attention by patterns keeps, how it shares its work among threads, what `softmax` refuses; T5's
// buckets.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/attention/pattern_attention.h"
#include "engine/attention/t5_buckets.h"
#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

TEST(Softmax, WithoutAWindowTheStateIsExactlyWhatIsDeclared) {
  const Layer layer(AttentionExamples()[0], Precision::kF32);
  Passage passage(layer, 300);
  const auto run = layer.attention().Start();
  for (int64_t i = 0; i < 300; ++i) {
    passage.Extend(*run, i, i + 1);
    ASSERT_EQ(Measured(*run), layer.attention().StateBytes(i + 1));
  }
}

TEST(Softmax, AWindowsStateStopsGrowing) {
  const AttentionExample example{"softmax", R"({"window": 130, "sinks": 4})", Place::kDecoder};
  const Layer layer(example, Precision::kF32);
  EXPECT_EQ(layer.attention().StateBytes(1000), layer.attention().StateBytes(1 << 20));
}

TEST(Softmax, RefusesOptionsThatCannotBe) {
  const std::vector<Refusal> refusals = {
      {Place::kCross, R"({"window": 12})", {"layers[0].attention.window", "12", "no distance"}},
      {Place::kEncoder,
       R"({"window": 12, "sinks": 1})",
       {"layers[0].attention.sinks", "1", "decoder's window"}},
      {Place::kDecoder, R"({"sinks": 4})", {"sinks", "4", "need a window"}},
      {Place::kDecoder, R"({"window": -1})", {"window", "-1", "below 0"}},
      {Place::kDecoder, R"({"num_key_value_heads": 3})", {"num_key_value_heads", "4 heads", "3"}},
      {Place::kDecoder, R"({"num_key_value_heads": 5})", {"num_key_value_heads", "5", "above 4"}},
      {Place::kDecoder, R"({"head_dim": 0})", {"head_dim", "0", "below 1"}},
      {Place::kDecoder, R"({"head_dim": 100000})", {"head_dim", "100000", "above 1024"}},
      {Place::kDecoder, R"({"scale": 0})", {"scale", "below"}},
      {Place::kDecoder, R"({"rope": {"dims": 3}})", {"rope.dims", "3 is odd"}},
      {Place::kDecoder, R"({"rope": {"dims": 10}})", {"rope.dims", "10", "above 8"}},
      {Place::kDecoder, R"({"rope": {"theta": 0}})", {"rope.theta", "below 1"}},
      {Place::kDecoder, R"({"rope": {"layout": "quarter"}})", {"rope.layout", "quarter", "interleaved"}},
      {Place::kDecoder, R"({"rope": {"scaling": 2}})", {"rope", "scaling"}},
      {Place::kDecoder, R"({"rope": 7})", {"rope", "7", "not an object"}},
      {Place::kDecoder, R"({"relative_bias": {"max_distance": 20}})", {"relative_bias.buckets", "missing"}},
      {Place::kDecoder,
       R"({"relative_bias": {"buckets": 8, "max_distance": 4}})",
       {"max_distance", "4", "below 5"}},
      {Place::kDecoder,
       R"({"relative_bias": {"buckets": 8, "max_distance": 20}})",
       {"relative_bias"}},  // no tensor
      {Place::kDecoder,
       R"({"window": 9, "sinks": 1, "sink_positions": "page"})",
       {"sink_positions", "page", "cache"}},
      {Place::kDecoder, R"({"alibi": 1})", {"alibi", "not true or false"}},
  };
  const Layer layer({"softmax", "{}", Place::kDecoder}, Precision::kF32);
  const auto weights = Weights::Of({});
  ExpectRefused(layer, WeightScope(*weights), refusals);
}

AttentionExample ThreeKeyValueHeads() {
  return {"softmax", R"({"num_key_value_heads": 3, "rope": {}})", Place::kDecoder, 48, 6};
}

// What 16 threads of any machine get: tasks are counted.
TEST(PatternAttention, ALoneStreamGivesWorkToSixteenThreads) {
  const Layer layer(ThreeKeyValueHeads(), Precision::kF32);
  const auto most = [](const std::vector<AttentionStage>& stages) {
    int64_t tasks = 0;
    for (const AttentionStage& stage : stages) tasks = std::max(tasks, stage.tasks);
    return tasks;
  };
  const auto run = layer.attention().Start();
  EXPECT_GE(most(run->Begin({.first = 0, .count = 2048, .source_count = 2048})), 16);
  const auto longer = layer.attention().Start();
  longer->Begin({.source_count = 65536});
  EXPECT_GE(most(longer->Begin({.first = 65536, .count = 1, .source_count = 1})), 16);
  EXPECT_GE(most(longer->Begin({.first = 65537, .count = 128, .source_count = 128})), 6);
}

TEST(PatternAttention, StepsOfManyKeysAreTheWholeBitForBit) {
  constexpr int64_t kTokens = 2 * kKeyPart + 1000;
  for (const char* options : {R"({"num_key_value_heads": 3, "rope": {}})",
                              R"({"num_key_value_heads": 3, "window": 6000, "sinks": 5, "alibi": true})"}) {
    AttentionExample example = ThreeKeyValueHeads();
    example.options = options;
    const Layer layer(example, Precision::kF32);
    const Passage whole = Whole(layer, kTokens);
    Passage steps(layer, kTokens);
    const auto run = layer.attention().Start();
    steps.Extend(*run, 0, kTokens - 6);
    for (int64_t begin : {kTokens - 6, kTokens - 5, kTokens - 3}) {
      const int64_t end = begin == kTokens - 6 ? begin + 1 : begin == kTokens - 5 ? begin + 2 : kTokens;
      steps.Extend(*run, begin, end);
    }
    EXPECT_EQ(FirstDifference(whole.out(), steps.out()), -1) << options;
  }
}

TEST(PatternAttention, AFewRowsTakeInALongSourceWhole) {
  const Layer layer({"full", "{}", Place::kCross}, Precision::kF32);
  const Passage whole = Whole(layer, 2200);
  Passage few(layer, 2200);
  few.Extend(*layer.attention().Start(), 0, 3);
  for (int64_t c = 0; c < 32; ++c) ASSERT_NEAR(few.out().At(2, c), whole.out().At(2, c), 1e-5) << c;
}

TEST(TrackSet, CountsThePlacesOfItsPositions) {
  const auto held = [](const TrackSet& set, int64_t track, int64_t position) {
    if (!set.listed.empty()) return std::ranges::count(set.listed, position) > 0;
    if (position >= set.limit) return false;
    const int64_t residue = position % set.period;
    return set.apart ? residue == track : residue >= set.begin && residue < set.end;
  };
  TrackSet residues{.period = 5, .begin = 0, .end = 5, .apart = true},
      summaries{.period = 7, .begin = 4, .end = 7}, first{.limit = 12}, some,
      single{.period = 3, .begin = 1, .end = 2, .limit = 20};
  some.listed = {2, 3, 17, 40};
  for (const TrackSet& set : {TrackSet{}, residues, summaries, first, some, single}) {
    for (int64_t track = 0; track < set.tracks(); ++track) {
      int64_t places = 0;
      for (int64_t position = 0; position < 60; ++position) {
        ASSERT_EQ(set.Places(track, position), places) << position;
        if (!set.apart) {
          const Range run = set.Run(position);
          int64_t next = position;
          while (next < 60 && !held(set, track, next)) ++next;
          ASSERT_EQ(std::min<int64_t>(run.begin, 60), next) << position;
          for (int64_t p = run.begin; p < std::min<int64_t>(run.end, 60); ++p)
            ASSERT_TRUE(held(set, track, p));
        }
        if (held(set, track, position)) ++places;
      }
    }
  }
}

// The floor's real number, where it is not near a whole one.
TEST(T5Buckets, AreTheFormulaAndExactAtTheBorders) {
  for (const auto& [buckets, far] :
       std::vector<std::pair<int, int64_t>>{{32, 128}, {8, 20}, {5, 7}, {2, 9}, {64, 1000}}) {
    const T5Buckets one(buckets, far, false);
    const int e = buckets / 2;
    for (int64_t x = 0; x < 2 * far; ++x) {
      int64_t expected = x;
      if (x >= e && e > 0) {
        const long double real = (buckets - e) * std::log(static_cast<long double>(x) / e) /
                                 std::log(static_cast<long double>(far) / e);
        if (std::abs(real - std::round(real)) < 1e-9) continue;
        expected = std::min<int64_t>(buckets - 1, e + static_cast<int64_t>(real));
      }
      EXPECT_EQ(one.Bucket(x), expected) << buckets << " " << far << " " << x;
      EXPECT_EQ(one.Bucket(-x), 0);
      if (buckets % 2 == 0) {
        const T5Buckets both(2 * buckets, far, true);
        EXPECT_EQ(both.Bucket(x), expected);
        EXPECT_EQ(both.Bucket(-x), x > 0 ? buckets + expected : 0);
      }
    }
  }
  const T5Buckets exact(8, 64, false);  // 4 + 4 log(x / 4) / log(16): a border at each power of two
  for (const auto& [x, bucket] : std::vector<std::pair<int64_t, int64_t>>{
           {7, 4}, {8, 5}, {15, 5}, {16, 6}, {31, 6}, {32, 7}, {64, 7}}) {
    EXPECT_EQ(exact.Bucket(x), bucket) << x;
  }
}

}  // namespace
}  // namespace heed
