// PNG and JPEG files to pixels, and what is no such file.
#include "engine/images/decode.h"

#include <random>

#include "engine/images/png_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/images/files.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<uint8_t> PixelOf(const ByteImage& image, int64_t y, int64_t x) {
  const auto first = image.values.begin() + (y * image.width + x) * image.channels;
  return {first, first + image.channels};
}

TEST(DecodeImage, APngIsItsPixels) {
  const auto image = DecodeImage(Bytes(kPng));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->height, 4);
  EXPECT_EQ(image->width, 6);
  EXPECT_EQ(image->values, PngValues());
}

TEST(EncodePng, IsReadAsItsPixels) {
  const ByteImage image = *DecodeImage(Bytes(kPng));
  EXPECT_EQ(DecodeImage(*EncodePng(image))->values, image.values);
  const ByteImage grey = ToGrey(image);
  EXPECT_EQ(ToGrey(*DecodeImage(*EncodePng(grey))).values, grey.values);
  const ByteImage clear{.height = 1, .width = 2, .channels = 4, .values = {1, 2, 3, 0, 5, 6, 7, 255}};
  EXPECT_THAT(DecodeImage(*EncodePng(clear))->values, ElementsAre(1, 2, 3, 5, 6, 7));
}

TEST(EncodePng, WhatNoFileHoldsIsRefused) {
  EXPECT_THAT(
      EncodePng({.height = 1, .width = 1, .channels = 5, .values = {1, 2, 3, 4, 5}}).status().message(),
      HasSubstr("5 channels, a PNG file has 1 to 4"));
  EXPECT_THAT(EncodePng({.height = 0, .width = 1, .values = {}}).status().message(), HasSubstr("height 0"));
}

TEST(DecodeImage, TransparencyIsLeftOut) {
  EXPECT_EQ(DecodeImage(Bytes(kTransparentPng))->values, PngValues());
}

TEST(DecodeImage, GreyIsThreeTimesTheSame) {
  const auto image = DecodeImage(Bytes(kGreyPng));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(PixelOf(*image, 0, 0), ElementsAre(30, 30, 30));
  EXPECT_THAT(PixelOf(*image, 3, 5), ElementsAre(100, 100, 100));
  EXPECT_EQ(ToGrey(*image).values, ToGrey(*DecodeImage(Bytes(kPng))).values);
}

TEST(DecodeImage, APaletteIsItsColours) {
  const auto image = DecodeImage(Bytes(kPalettePng));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(PixelOf(*image, 0, 0), ElementsAre(19, 56, 93));
  EXPECT_THAT(PixelOf(*image, 0, 4), ElementsAre(174, 211, 138));
  EXPECT_THAT(PixelOf(*image, 3, 5), ElementsAre(176, 42, 79));
}

TEST(DecodeImage, SixteenBitsAreEight) {
  const auto image = DecodeImage(Bytes(kFinePng));
  ASSERT_TRUE(image.ok()) << image.status();
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(image->values[3 * i], 13000.0 * i / 257, 0.6);
}

TEST(DecodeImage, AJpegIsNearlyItsPixels) {
  for (const char* file : {kJpeg, kProgressiveJpeg}) {
    const auto image = DecodeImage(Bytes(file));
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->height, 16);
    EXPECT_EQ(image->width, 16);
    EXPECT_THAT(PixelOf(*image, 0, 0), ElementsAre(10, 99, 245));
    EXPECT_THAT(PixelOf(*image, 7, 3), ElementsAre(84, 101, 170));
    EXPECT_THAT(PixelOf(*image, 15, 15), ElementsAre(216, 102, 42));
  }
  const auto grey = DecodeImage(Bytes(kGreyJpeg));
  ASSERT_TRUE(grey.ok()) << grey.status();
  EXPECT_THAT(PixelOf(*grey, 0, 0), ElementsAre(89, 89, 89));
  EXPECT_THAT(PixelOf(*grey, 15, 15), ElementsAre(129, 129, 129));
}

TEST(DecodeImage, GreyIsWeighedAsTheEyeDoes) {
  const ByteImage rgb{.height = 1, .width = 4, .values = {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255}};
  const ByteImage grey = ToGrey(rgb);
  EXPECT_EQ(grey.channels, 1);
  EXPECT_THAT(grey.values, ElementsAre(76, 150, 29, 255));
}

std::string Refusal(const std::string& file) {
  const auto image = DecodeImage(file);
  return image.ok() ? "accepted" : std::string(image.status().message());
}

// A PNG file's first bytes, of so many pixels; its checksum of them fits.
std::string WithSize(uint32_t width, uint32_t height) {
  std::string file = Bytes(kPng);
  for (int i = 0; i < 4; ++i) {
    file[16 + i] = static_cast<char>(width >> (24 - 8 * i));
    file[20 + i] = static_cast<char>(height >> (24 - 8 * i));
  }
  uint32_t sum = 0xffffffff;
  for (int i = 12; i < 29; ++i) {
    sum ^= static_cast<unsigned char>(file[i]);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) * 0xedb88320);
  }
  for (int i = 0; i < 4; ++i) file[29 + i] = static_cast<char>(~sum >> (24 - 8 * i));
  return file;
}

// The size stands in the frame's header: ff c0, or c2, a length, a precision, height, width.
std::string JpegWithSize(uint16_t width, uint16_t height) {
  std::string file = Bytes(kJpeg);
  const size_t frame = file.find("\xff\xc0") + 5;
  file[frame] = static_cast<char>(height >> 8), file[frame + 1] = static_cast<char>(height);
  file[frame + 2] = static_cast<char>(width >> 8), file[frame + 3] = static_cast<char>(width);
  return file;
}

TEST(DecodeImage, ImagesThatAreTooLargeAreRefusedBeforeTheyAreRead) {
  EXPECT_EQ(WithSize(6, 4), Bytes(kPng));
  EXPECT_THAT(Refusal(WithSize(40000, 4)), HasSubstr("height 4 and width 40000, possible are 1 to 32768"));
  EXPECT_THAT(Refusal(WithSize(32768, 32768)), HasSubstr("1073741824 pixels; at most 16777216 are read"));
  EXPECT_THAT(Refusal(WithSize(0x7fffffff, 0x7fffffff)), HasSubstr("PNG file cannot be read"));
  EXPECT_THAT(Refusal(JpegWithSize(65500, 16)), HasSubstr("width 65500, possible are 1 to 32768"));
  EXPECT_THAT(Refusal(JpegWithSize(30000, 30000)), HasSubstr("900000000 pixels; at most 16777216"));
}

TEST(DecodeImage, WhatIsNoImageIsRefused) {
  EXPECT_THAT(Refusal(""), HasSubstr("the 0 bytes begin neither as a PNG nor as a JPEG file"));
  EXPECT_THAT(Refusal("GIF89a"), HasSubstr("the 6 bytes begin neither"));
  EXPECT_THAT(Refusal(Bytes(kCmykJpeg)), HasSubstr("JPEG file cannot be read: Unsupported color conversion"));
}

TEST(DecodeImage, FilesThatAreCutShortAreRefused) {
  for (const char* whole : {kPng, kTransparentPng, kPalettePng, kJpeg, kProgressiveJpeg}) {
    const std::string file = Bytes(whole);
    // The last bytes say only that it ends: 12 of a PNG.
    for (size_t size = 0; size + 12 < file.size(); ++size)
      ASSERT_NE(Refusal(file.substr(0, size)), "accepted") << size << " of " << file.size();
  }
}

std::string Before(const std::string& file, const std::string& marker, const std::string& bytes) {
  const size_t at = file.rfind(marker);
  CHECK(at != file.npos);
  return file.substr(0, at) + bytes + file.substr(at);
}

TEST(DecodeImage, BytesOfAJpegThatBelongToNothingAreLeftOut) {
  for (const char* whole : {kJpeg, kProgressiveJpeg, kGreyJpeg}) {
    const std::string file = Bytes(whole), frame = whole == kProgressiveJpeg ? "\xff\xc2" : "\xff\xc0";
    const std::vector<uint8_t> values = DecodeImage(file)->values;
    for (const std::string& longer :
         {file + "what a camera adds", Before(file, "\xff\xd9", "\x12\x34\x56\x78\x12\x34"),
          Before(file, frame, "\1\2\3")}) {
      const auto image = DecodeImage(longer);
      ASSERT_TRUE(image.ok()) << image.status();
      EXPECT_EQ(image->values, values);
    }
  }
}

TEST(DecodeImage, AJpegThatEndsInItsPixelsIsRefusedThoughItSaysThatItEnds) {
  const std::string file = Bytes(kJpeg);
  const size_t scan = file.rfind("\xff\xda") + 14;  // behind the scan's header
  for (size_t size = scan; size + 8 < file.size(); ++size)
    ASSERT_THAT(Refusal(file.substr(0, size) + "\xff\xd9"), HasSubstr("premature end")) << size;
}

TEST(DecodeImage, DamagedFilesAreReadOrRefused) {
  std::minstd_rand random(1);
  int read = 0, refused = 0;
  for (const char* whole :
       {kPng, kTransparentPng, kGreyPng, kPalettePng, kFinePng, kJpeg, kProgressiveJpeg}) {
    for (int i = 0; i < 300; ++i) {
      std::string file = Bytes(whole);
      for (int byte = 0; byte < 1 + i % 4; ++byte)
        file[8 + random() % (file.size() - 8)] = static_cast<char>(random());
      const auto image = DecodeImage(file);
      ++(image.ok() ? read : refused);
      if (image.ok()) {
        EXPECT_EQ(std::ssize(image->values), 3 * image->height * image->width);
      }
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 1000);
}

TEST(DecodeImage, AFileOfEndlessScansIsRefused) {
  std::string file = Bytes(kProgressiveJpeg);
  const size_t scan = file.rfind("\xff\xda");  // the last scan: it refines what is there
  const std::string last = file.substr(scan, file.size() - 2 - scan);
  file.resize(file.size() - 2);
  for (int i = 0; i < 200; ++i) file += last;
  file += "\xff\xd9";
  EXPECT_NE(Refusal(file), "accepted");
}

}  // namespace
}  // namespace heed
