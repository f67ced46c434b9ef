// Resizing against what Pillow 12 gives.
#include "engine/images/resize.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using Values = std::vector<uint8_t>;

const ByteImage kSmall{.height = 3,
                       .width = 5,
                       .channels = 1,
                       .values = {0, 255, 0, 255, 128, 10, 20, 30, 40, 50, 200, 100, 0, 100, 200}};

TEST(Resized, IsBilinearAsPillows) {
  const auto to = [](int64_t height, int64_t width) {
    return Resized(kSmall, height, width, Resample::kBilinear).values;
  };
  EXPECT_EQ(to(2, 3), (Values{73, 82, 131, 103, 39, 115}));
  EXPECT_EQ(to(3, 2), (Values{116, 157, 20, 40, 109, 109}));
  EXPECT_EQ(to(1, 1), (Values{79}));
  EXPECT_EQ(to(4, 5),
            (Values{0, 255, 0, 255, 128, 6, 108, 19, 121, 79, 81, 50, 19, 63, 106, 200, 100, 0, 100, 200}));
  EXPECT_EQ(to(6, 7), (Values{0,   146, 182, 0,  182, 201, 128, 3,   114, 142, 8,  146, 162, 109,
                              8,   49,  63,  23, 73,  83,  70,  58,  48,  35,  23, 46,  69,  88,
                              153, 111, 59,  8,  63,  118, 163, 200, 143, 71,  0,  71,  143, 200}));
}

TEST(Resized, IsBicubicAsPillows) {
  const auto to = [](int64_t height, int64_t width) {
    return Resized(kSmall, height, width, Resample::kBicubic).values;
  };
  EXPECT_EQ(to(2, 3), (Values{68, 89, 129, 104, 29, 113}));
  EXPECT_EQ(to(3, 2), (Values{109, 158, 19, 41, 108, 108}));
  EXPECT_EQ(to(1, 1), (Values{85}));
  EXPECT_EQ(to(4, 5),
            (Values{0, 255, 0, 255, 132, 0, 102, 21, 116, 69, 82, 33, 21, 47, 101, 210, 104, 0, 103, 208}));
  EXPECT_EQ(to(6, 7), (Values{0,   173, 220, 0,  209, 231, 127, 0,   130, 169, 6,  164, 181, 104,
                              0,   38,  60,  25, 70,  76,  56,  53,  35,  20,  25, 33,  57,  81,
                              169, 122, 54,  6,  57,  127, 175, 223, 163, 70,  0,  69,  160, 220}));
}

TEST(Resized, ToItsOwnSizeIsTheSame) {
  EXPECT_EQ(Resized(kSmall, 3, 5, Resample::kBilinear).values, kSmall.values);
  EXPECT_EQ(Resized(kSmall, 3, 5, Resample::kBicubic).values, kSmall.values);
}

TEST(Cropped, IsTheMiddleOfAnImage) {
  EXPECT_EQ(Cropped(kSmall, 1, 3).values, (Values{20, 30, 40}));
  EXPECT_EQ(Cropped(kSmall, 2, 2).values, (Values{255, 0, 20, 30})) << "the larger half is left out behind";
  EXPECT_EQ(Cropped(kSmall, 3, 5).values, kSmall.values);
  const ByteImage colours{.height = 1, .width = 3, .values = {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  EXPECT_EQ(Cropped(colours, 1, 1).values, (Values{4, 5, 6}));
}

TEST(Cropped, StandsInZerosWhereItIsLarger) {
  const ByteImage image{.height = 1, .width = 2, .channels = 1, .values = {7, 8}};
  EXPECT_EQ(Cropped(image, 3, 4).values, (Values{0, 0, 0, 0, 0, 7, 8, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Cropped(image, 2, 3).values, (Values{0, 0, 0, 0, 7, 8})) << "more above and to the left";
  EXPECT_EQ(Cropped(image, 2, 1).values, (Values{0, 7})) << "higher and narrower";
}

uint32_t HashOf(const Values& values) {
  uint32_t hash = 0;
  for (const uint8_t value : values) hash = hash * 31 + value;
  return hash;
}

ByteImage Striped(int64_t height, int64_t width, int64_t channels, int64_t factor, int64_t modulus) {
  ByteImage image{.height = height, .width = width, .channels = channels};
  for (int64_t i = 0; i < height * width * channels; ++i)
    image.values.push_back(static_cast<uint8_t>(i * factor % modulus));
  return image;
}

TEST(Resized, OfLargerImagesEveryByteIsPillows) {
  const ByteImage grey = Striped(61, 97, 1, 7919, 256), colour = Striped(32, 48, 3, 37, 251);
  EXPECT_EQ(HashOf(Resized(grey, 28, 28, Resample::kBilinear).values), 756502639u);
  EXPECT_EQ(HashOf(Resized(grey, 90, 130, Resample::kBilinear).values), 1118787661u);
  EXPECT_EQ(HashOf(Resized(grey, 200, 7, Resample::kBilinear).values), 1325084463u);
  EXPECT_EQ(HashOf(Resized(grey, 28, 28, Resample::kBicubic).values), 3908619725u);
  EXPECT_EQ(HashOf(Resized(grey, 90, 130, Resample::kBicubic).values), 2774092431u);
  EXPECT_EQ(HashOf(Resized(grey, 200, 7, Resample::kBicubic).values), 3330113816u);
  EXPECT_EQ(HashOf(Resized(colour, 64, 21, Resample::kBilinear).values), 3460031499u);
  EXPECT_EQ(HashOf(Resized(colour, 64, 21, Resample::kBicubic).values), 3488629208u);
}

}  // namespace
}  // namespace heed
