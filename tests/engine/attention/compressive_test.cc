// `compressive` around the edges of its segments, against its definition; its state and its work.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/attention/key_value_pages.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

AttentionExample Mean(const std::string& options) {
  Json fields = *ParseJson(options, "options");
  fields["compression"] = "mean";
  return {"compressive", fields.dump(), Place::kDecoder};
}

void ExpectTheDefinition(const AttentionExample& example, int64_t n, const std::vector<int64_t>& rows) {
  ExpectDefinition(Whole(Layer(example, Precision::kF32), n), rows);
}

// Rows at the beginnings and ends of segments, in tiles that lie across several, and when the compressed
// memory is full.
TEST(Compressive, IsTheDefinition) {
  for (const AttentionExample& example : ExamplesOf("compressive")) {
    ExpectTheDefinition(example, 820,
                        {0,   1,   4,   5,   14,  15,  19,  20,  24,  71,  72,  73,  95,  96,  127, 128,
                         149, 150, 151, 209, 210, 299, 300, 301, 420, 449, 640, 700, 719, 720, 819});
  }
}

// So wide that the products of compressed rows are several tasks, and so narrow that theirs fill no vector.
TEST(Compressive, IsTheDefinitionOfWideAndNarrowLayers) {
  for (const auto& [width, heads] : std::vector<std::pair<int64_t, int>>{{192, 3}, {30, 5}}) {
    ExpectTheDefinition({"compressive", R"({"segment": 6, "memory": 12, "compressed_memory": 7, "rate": 3})",
                         Place::kDecoder, width, heads},
                        150, {17, 18, 23, 24, 149});
  }
}

TEST(Compressive, IsTheDefinitionWhereAMemoryHoldsNothing) {
  for (const char* options : {R"({"segment": 8, "memory": 16, "compressed_memory": 0, "rate": 2})",
                              R"({"segment": 24, "memory": 0, "compressed_memory": 0, "rate": 4})",
                              R"({"segment": 6, "memory": 0, "compressed_memory": 5, "rate": 1})"})
    ExpectTheDefinition(Mean(options), 300, {0, 7, 8, 15, 16, 23, 24, 25, 47, 48, 127, 128, 160, 255, 299});
}

// Few rows of many keys attend part by part.
TEST(Compressive, StepsWithLargeMemoriesAreTheWhole) {
  const Layer layer(
      Mean(R"({"segment": 100, "memory": 5000, "compressed_memory": 5000, "rate": 1, "clamp_length": 300})"),
      Precision::kF32);
  EXPECT_LE(DifferenceOfSteps(layer, 11000, 10980, 4), 1e-5);
}

// Keys and values of both memories and of the segment, as pages hold them, and one open group: no inputs.
TEST(Compressive, TheStateIsKeysValuesAndOneRow) {
  const Layer layer(Mean(R"({"segment": 128, "memory": 256, "compressed_memory": 120, "rate": 16})"),
                    Precision::kF32);
  const auto pages = [](int64_t rows) { return 4 * KeyValuePages::Bytes(DType::kF32, 8, 0, rows); };
  // 384 tokens and, of groups, 120 and 24 in memory and segment: each in whole pages and one more.
  const int64_t expected = pages(512) + pages(384) + 32 * 4 + 8;
  EXPECT_EQ(layer.attention().StateBytes(1 << 20), expected);
  EXPECT_EQ(layer.attention().StateBytes(6000), expected);
}

// Whatever the position, and also where segments and groups end.
TEST(Compressive, AStepCostsTheSameForEver) {
  for (const AttentionExample& example : ExamplesOf("compressive")) {
    const Layer layer(example, Precision::kF32);
    const auto run = layer.attention().Start();
    Passage passage(layer, 2600);
    const auto most = [&](int64_t begin, int64_t end) {
      int64_t calls = 0;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t before = MicroKernel::Calls();
        passage.Extend(*run, i, i + 1);
        calls = std::max(calls, MicroKernel::Calls() - before);
      }
      return calls;
    };
    passage.Extend(*run, 0, 1000);
    const int64_t early = most(1000, 1300);
    passage.Extend(*run, 1300, 2300);
    EXPECT_LE(most(2300, 2600), early + early / 4) << example.options;
  }
}

TEST(Compressive, CostsWhatItSeesAndMakes) {
  for (const AttentionExample& example : ExamplesOf("compressive")) {
    const Layer layer(example, Precision::kF32);
    const Json& o = layer.options();
    const int64_t segment = o["segment"], memory = o["memory"], compressed = o["compressed_memory"],
                  rate = o["rate"];
    const bool conv = o.value("compression", "conv") == "conv";
    constexpr int64_t kTokens = 400;
    const auto width = static_cast<double>(example.width);
    for (int64_t rows : {kTokens, int64_t{70}}) {
      double seen = 0, groups = 0;
      for (int64_t i = kTokens - rows; i < kTokens; ++i) {
        const int64_t left = std::max<int64_t>(0, i / segment * segment - memory);  // the memory
        seen += static_cast<double>(i + 1 - left + std::min(compressed, left / rate));
        groups += (i + 1) % rate == 0;
      }
      const double folded = static_cast<double>(rows) * width * (conv ? width : 1);
      EXPECT_DOUBLE_EQ(layer.attention().Cost(rows, kTokens),
                       3 * width * seen + folded + groups * 3 * width * width)
          << example.options;
    }
  }
}

TEST(Compressive, RefusesWhatCannotBe) {
  const std::string whole = R"({"segment": 8, "memory": 16, "compressed_memory": 4, "rate": 2)";
  const auto with = [&](const char* more) { return whole + more + "}"; };
  const std::string median = with(R"(, "compression": "median")"), clamp = with(R"(, "clamp_length": -1)"),
                    plain = with("");
  const std::vector<Refusal> refusals = {
      {Place::kDecoder, "{}", {"layers[0].attention", "segment is missing"}},
      {Place::kDecoder,
       R"({"segment": 8, "memory": 12, "compressed_memory": 4, "rate": 2})",
       {"memory: 12", "multiple", "segment: 8"}},
      {Place::kDecoder,
       R"({"segment": 8, "memory": 16, "compressed_memory": 4, "rate": 3})",
       {"rate: 3", "divide", "segment: 8"}},
      {Place::kDecoder,
       R"({"segment": 8, "memory": 16, "compressed_memory": -1, "rate": 2})",
       {"compressed_memory", "-1", "below 0"}},
      {Place::kDecoder,
       R"({"segment": 70000, "memory": 0, "compressed_memory": 1, "rate": 2})",
       {"segment", "70000", "65536"}},
      {Place::kDecoder, median.c_str(), {"compression", "median", "conv"}},
      {Place::kDecoder, clamp.c_str(), {"clamp_length", "-1", "below 0"}},
      {Place::kEncoder, plain.c_str(), {"decoders only"}},
      {Place::kCross, plain.c_str(), {"decoders only"}},
  };
  const Layer layer(ExamplesOf("compressive").front(), Precision::kF32);
  const auto weights = Weights::Of({});
  ExpectRefused(layer, WeightScope(*weights), refusals);
  ExpectRefused(layer, layer.scope(),
                {{Place::kDecoder, plain.c_str(), {"compress.weight", "[32, 32, 4]", "[32, 32, 2]"}}});
}

TEST(Compressive, RefusesATableThatIsTooLarge) {
  const AttentionSetting setting{
      .width = 8192, .num_heads = 64, .causal = true, .where = "layers[0].attention"};
  const auto weights = Weights::Of({});
  const Json options = *ParseJson(
      R"({"type": "compressive", "segment": 65536, "memory": 65536, "compressed_memory": 65536, "rate": 8})",
      "options");
  JsonFields fields(options, setting.where);
  EXPECT_THAT(
      std::string(NewAttention(setting, fields, WeightScope(*weights)).status().message()),
      testing::AllOf(testing::HasSubstr("compressed_memory: 65536"), testing::HasSubstr("1073741824")));
}

}  // namespace
}  // namespace heed
