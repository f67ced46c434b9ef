// Windows of images of any size, against the definition; what they cost, where they lie, what is refused.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "engine/attention/grid_windows.h"
#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

// A layer for images of any size, made for those of this one.
Layer ForImages(const std::string& options, ImageSize size, Precision precision = Precision::kF32,
                bool fixed = false) {
  return Layer({.type = "window_2d",
                .options = options,
                .place = Place::kEncoder,
                .width = 36,
                .num_heads = 3,
                .image = ImageRows{size, fixed}},
               precision);
}

Passage OfImage(const Layer& layer, ImageSize size) {
  Passage passage(layer, size.height * size.width);
  passage.Arrange(size.width);
  passage.Extend(*layer.attention().Start(), 0, passage.n());
  return passage;
}

std::vector<int64_t> Spread(int64_t n) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < n; i += 1 + n / 60) rows.push_back(i);
  rows.push_back(n - 1);
  return rows;
}

const ImageSize kSizes[] = {{1, 1}, {1, 70}, {70, 1},  {3, 5},   {5, 5},
                            {6, 6}, {7, 13}, {10, 10}, {11, 24}, {40, 17}};

TEST(Windows, AreTheDefinitionInImagesOfAnySize) {
  for (const char* options :
       {R"({"window": 5, "shift": 2})", R"({"window": 5, "shift": 4})", R"({"window": 5})",
        R"({"window": 1})", R"({"window": 6, "shift": 3, "relative_bias": false})",
        R"({"window": 5, "shift": 5})", R"({"window": 5, "shift": 9})"}) {
    const Layer layer = ForImages(options, {10, 10});
    for (const ImageSize& size : kSizes) {
      const Passage passage = OfImage(layer, size);
      ExpectDefinition(passage, Spread(passage.n()));
    }
  }
}

// More cells than a tile has, and more keys than are read at once.
TEST(Windows, ThatAreLargeAreTheDefinition) {
  for (const char* options : {R"({"window": 23, "shift": 11})", R"({"window": 40, "shift": 7})"}) {
    const Layer layer = ForImages(options, {90, 90});
    const Passage passage = OfImage(layer, {47, 61});
    ExpectDefinition(passage, Spread(passage.n()));
  }
}

TEST(Windows, AreTheDefinitionInBf16) {
  const Precision precision = Supported(Precision::kBf16);  // f32 where the CPU has no bf16
  for (const char* options : {R"({"window": 5, "shift": 2})", R"({"window": 23, "shift": 11})"}) {
    const Layer layer = ForImages(options, {90, 90}, precision);
    const Passage passage = OfImage(layer, {33, 50});
    ExpectDefinition(passage, Spread(passage.n()), {.bounds = 1e5});
  }
}

// A row that stands alone in its grid's last window has what fills it for company.
TEST(Windows, OfRowsThatEndWithinALineAreFilled) {
  const Layer layer({"window_2d", R"({"window": 4, "shift": 1, "height": 30, "width": 9})", Place::kEncoder},
                    Precision::kF32);
  for (int64_t n : {1, 8, 9, 10, 46, 269, 270}) ExpectDefinition(Whole(layer, n), Spread(n));
}

TEST(Windows, OfAnImageDoNotChangeWithAnothers) {
  const Layer layer = ForImages(R"({"window": 5, "shift": 2})", {10, 10});
  const Passage alone = OfImage(layer, {13, 8});
  OfImage(layer, {40, 30});
  EXPECT_EQ(FirstDifference(alone.out(), OfImage(layer, {13, 8}).out()), -1);
}

// A row's answer depends on its own window and on nothing beside it.
TEST(Windows, AreSeenByTheirRowsAlone) {
  const Layer layer = ForImages(R"({"window": 4, "shift": 1})", {12, 12});
  const Passage before = OfImage(layer, {12, 12});
  Passage after(layer, 144);
  after.Arrange(12);
  for (int product : {1, 2}) {
    for (int64_t c = 0; c < 36; ++c)
      after.product(product).Set(6 * 12 + 7, c, 3);  // in lines and columns 5 to 8
  }
  after.Extend(*layer.attention().Start(), 0, 144);
  for (int64_t i = 0; i < 144; ++i) {
    bool same = true;
    for (int64_t c = 0; c < 36; ++c) same &= before.out().At(i, c) == after.out().At(i, c);
    const int64_t line = i / 12, column = i % 12;
    EXPECT_EQ(same, line < 5 || line > 8 || column < 5 || column > 8) << line << ", " << column;
  }
}

TEST(Windows, HoldEveryRowOnce) {
  for (const ImageSize& size : kSizes) {
    for (int64_t window : {1, 3, 5, 8}) {
      for (int64_t shift = 0; shift < window; ++shift) {
        const GridWindows windows(size, window, shift);
        std::multiset<int64_t> held;
        double pairs = 0;
        for (const AlikeWindows& alike : windows.Cut(size.height * size.width)) {
          for (int64_t i = 0; i < alike.count(); ++i) {
            const GridWindow at = WindowAt(alike, i);
            int64_t rows = 0;
            for (int64_t y = at.top; y < std::min(at.top + at.lines, size.height); ++y) {
              for (int64_t x = at.left; x < std::min(at.left + at.columns, size.width); ++x, ++rows)
                held.insert(y * size.width + x);
            }
            EXPECT_GT(rows, 0) << "a window of what is filled alone";
            pairs += static_cast<double>(rows * at.cells());
          }
        }
        const std::vector<int64_t> all = AllRows(size.height * size.width);
        EXPECT_EQ(std::vector<int64_t>(held.begin(), held.end()), all) << window << ", " << shift;
        EXPECT_EQ(windows.Pairs(size.height * size.width), pairs) << window << ", " << shift;
      }
    }
  }
}

TEST(Windows, CostWhatIsSeenWhereTheSizeIsFixedAndElseTheMostThatMayBe) {
  const Layer fixed = ForImages(R"({"window": 5, "shift": 2})", {11, 13}, Precision::kF32, /*fixed=*/true);
  const Layer any = ForImages(R"({"window": 5, "shift": 2})", {11, 13});
  EXPECT_EQ(fixed.attention().Cost(143, 143), 2 * 36 * GridWindows({11, 13}, 5, 2).Pairs(143));
  EXPECT_EQ(any.attention().Cost(143, 143), 2.0 * 36 * 143 * 25);
  EXPECT_EQ(fixed.attention().StateBytes(143), 8);
}

// A window that is smaller than the options say, as the model's own images are.
TEST(Windows, HaveBiasesForTheGridThatTheModelIsMadeFor) {
  const Layer layer = ForImages(R"({"window": 7, "shift": 3})", {3, 4}, Precision::kF32, /*fixed=*/true);
  EXPECT_EQ(layer.tensors().at("relative_bias").shape, (std::vector<int64_t>{25, 3}));
  const Passage passage = OfImage(layer, {3, 4});
  ExpectDefinition(passage, AllRows(12));
}

TEST(Windows, AreRefusedByName) {
  const Layer layer(ExamplesOf("window_2d").front(), Precision::kF32);
  const auto weights = Weights::Of({});
  ExpectRefused(
      layer, WeightScope(*weights),
      {{Place::kEncoder, "{}", {"layers[0].attention", "window is missing"}},
       {Place::kEncoder, R"({"window": 4})", {"height and width"}},
       {Place::kEncoder, R"({"window": 0, "height": 4, "width": 4})", {"window", "0", "below 1"}},
       {Place::kEncoder, R"({"window": 257, "height": 4, "width": 4})", {"window", "257", "above 256"}},
       {Place::kEncoder, R"({"window": 4, "shift": 8, "height": 8, "width": 8})", {"shift", "8", "above 7"}},
       {Place::kEncoder,
        R"({"window": 4, "height": 90000, "width": 90000})",
        {"90000 x 90000", "2147483648"}},
       {Place::kEncoder,
        R"({"window": 4, "relative_bias": 3, "height": 8, "width": 8})",
        {"relative_bias", "3"}},
       {Place::kEncoder, R"({"window": 4, "height": 8, "width": 8})", {"q.weight"}},
       {Place::kDecoder, R"({"window": 4, "height": 8, "width": 8})", {"encoders only"}},
       {Place::kCross, R"({"window": 4, "height": 8, "width": 8})", {"self-attention only"}}});
}

// Options of a grid beside an image's own would be another grid.
TEST(Windows, OfImagesTakeNoOtherGrid) {
  const Layer layer = ForImages(R"({"window": 4})", {8, 8});
  const auto weights = Weights::Of({});
  ExpectRefused(layer, WeightScope(*weights),
                {{Place::kEncoder, R"({"window": 4, "height": 8, "width": 8})", {"height"}}});
}

}  // namespace
}  // namespace heed
