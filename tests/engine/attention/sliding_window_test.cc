// A sliding window's global tokens, and the work and state that it promises.
#include <vector>

#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

AttentionExample Band(const std::string& options, Place place, int64_t width = 32, int heads = 4) {
  return Bare({"sliding_window", options, place, width, heads});
}

// The layer of these options, and global tokens that the file has.
Layer WithFileTokens(Json options, const std::vector<int64_t>& tokens, Precision precision) {
  options["global_tokens"] = tokens;
  AttentionExample example = Band(options.dump(), Place::kEncoder);
  example.bare = false;
  return Layer(example, precision);
}

TEST(SlidingWindow, GlobalTokensOfTheRequestAreThoseThatAFileWouldHave) {
  for (const char* text : {R"({"window": 24})", R"({"window": 8, "dilation": [1, 2, 1, 3]})"}) {
    const Json options = *ParseJson(text, "options");
    const Layer layer = WithFileTokens(options, {1, 30}, Precision::kF32);
    for (int64_t labelled : {0, 1, 7, 260}) {
      const std::vector<int32_t> labels = Labels(260, labelled);
      std::vector<int64_t> tokens;
      for (int64_t i = 0; i < 260; ++i) {
        if (labels[i] == 1) tokens.push_back(i);
      }
      const Layer file = WithFileTokens(options, tokens, Precision::kF32);
      EXPECT_EQ(FirstDifference(Labelled(layer, labels).out(), Whole(file, 260).out()), -1)
          << text << " with " << labelled;
    }
  }
}

TEST(SlidingWindow, WithoutTheTensorsOfGlobalTokensItReadsNoLabels) {
  const Layer layer(Band(R"({"window": 8})", Place::kEncoder), Precision::kF32);
  EXPECT_EQ(layer.attention().labels().kind, RowLabel::kNone);
  EXPECT_EQ(layer.attention().products().size(), 3u);
}

// A tile of 64 rows sees window + 63 keys, which touch at most so many pieces and blocks.
TEST(SlidingWindow, ComputesNoMoreBlocksThanTheBandHas) {
  constexpr int64_t kTokens = 8192, kTile = 64, kPiece = 32, kBlock = 256;
  for (const auto& [options, place, seen] : {std::tuple{R"({"window": 512})", Place::kDecoder, 512},
                                             {R"({"window": 512})", Place::kEncoder, 513}}) {
    const Layer layer(Band(options, place), Precision::kF32);
    const int64_t before = MicroKernel::Calls();
    Whole(layer, kTokens);
    const int64_t keys = seen + kTile - 1, pieces = (keys + kPiece - 2) / kPiece + 1,
                  blocks = (keys + kBlock - 2) / kBlock + 1;
    EXPECT_LE(MicroKernel::Calls() - before, 4 * kTokens / kTile * (pieces + blocks));
  }
}

TEST(SlidingWindow, TheStateStopsGrowing) {
  for (const char* options : {R"({"window": 130})", R"({"window": 70, "dilation": [1, 2, 3, 4]})"}) {
    const Layer layer(Band(options, Place::kDecoder), Precision::kF32);
    EXPECT_EQ(layer.attention().StateBytes(2000), layer.attention().StateBytes(1 << 20)) << options;
  }
}

// All tracks are held at once, global tokens' keys besides, and for their rows all keys once more.
TEST(SlidingWindow, AnEncoderTakesNoMoreThanItDeclaresAndNotMuchLess) {
  for (const char* options :
       {R"({"window": 8})", R"({"window": 8, "dilation": 5})",
        R"({"window": 300, "dilation": [1, 2, 3, 40]})", R"({"window": 8, "global_tokens": [0, 3]})",
        R"({"window": 8, "dilation": 3, "global_tokens": [1]})"}) {
    const Layer layer(Band(options, Place::kEncoder), Precision::kF32);
    for (int64_t n : {1, 100, 128, 1000, 3000}) {
      Passage passage(layer, n);
      const auto run = layer.attention().Start();
      const int64_t most = MostWhileAttending(passage, *run);
      EXPECT_LE(most, layer.attention().StateBytes(n)) << options << " of " << n;
      EXPECT_GE(most, 0.6 * static_cast<double>(layer.attention().StateBytes(n))) << options << " of " << n;
    }
  }
}

TEST(SlidingWindow, RefusesWhatCannotBe) {
  const std::vector<Refusal> refusals = {
      {Place::kDecoder, "{}", {"layers[0].attention", "window"}},
      {Place::kDecoder, R"({"window": 0})", {"window", "0", "below 1"}},
      {Place::kEncoder, R"({"window": 7})", {"window", "7", "odd"}},
      {Place::kCross, R"({"window": 8})", {"cross-attention"}},
      {Place::kDecoder, R"({"window": 8, "global_tokens": [0]})", {"global_tokens", "decoder"}},
      {Place::kEncoder, R"({"window": 8, "global_tokens": 0})", {"global_tokens", "0", "list"}},
      {Place::kEncoder, R"({"window": 8, "global_tokens": [-1]})", {"global_tokens", "-1"}},
      {Place::kDecoder, R"({"window": 8, "dilation": 0})", {"dilation", "0", "below 1"}},
      {Place::kDecoder, R"({"window": 8, "dilation": [1, 2]})", {"dilation", "[1,2]", "4 whole numbers"}},
      {Place::kDecoder, R"({"window": 8, "dilation": [1, 2, "x", 1]})", {"dilation", "x"}},
  };
  const Layer layer(Band(R"({"window": 8})", Place::kDecoder), Precision::kF32);
  const auto weights = Weights::Of({});
  ExpectRefused(layer, WeightScope(*weights), refusals);
}

}  // namespace
}  // namespace heed
