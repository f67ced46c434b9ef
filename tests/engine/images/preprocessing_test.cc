// preprocessor_config.json: what is made of a file's pixels, and what is refused.
#include "engine/images/preprocessing.h"

#include <filesystem>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "engine/images/png_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/engine/images/files.h"

namespace heed {
namespace {

using testing::HasSubstr;

Json Whole() {
  return {{"do_resize", true},
          {"size", {{"height", 2}, {"width", 4}}},
          {"resample", 3},
          {"do_rescale", true},
          {"rescale_factor", 0.5},
          {"do_normalize", true},
          {"image_mean", {1, 2, 3}},
          {"image_std", {2, 4, 8}},
          {"image_processor_type", "ViTImageProcessor"}};
}

Json With(Json json, const std::string& key, const Json& value) {
  json[key] = value;
  return json;
}

absl::StatusOr<FloatImage> Read(const ImagePreprocessing& preprocessing, const char* file) {
  ASSIGN_OR_RETURN(const ByteImage image, preprocessing.Decode(Bytes(file)));
  return preprocessing.Normalized(image);
}

TEST(ImagePreprocessing, ResizesRescalesAndNormalisesChannelByChannel) {
  const auto made = ImagePreprocessing::Parse(Whole(), 3);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->size().height, 2);
  EXPECT_EQ(made->size().width, 4);
  const auto image = Read(*made, kPng);
  ASSERT_TRUE(image.ok()) << image.status();
  const ByteImage resized = heed::Resized(*DecodeImage(Bytes(kPng)), 2, 4, Resample::kBicubic);
  ASSERT_EQ(image->values.size(), 24u);
  for (int c = 0; c < 3; ++c) {
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(image->values[8 * c + i], (resized.values[3 * i + c] * 0.5f - (c + 1)) / (2 << c));
  }
}

Json ConvNext(int64_t shortest_edge) {
  return {{"image_processor_type", "ConvNextImageProcessor"},
          {"size", {{"shortest_edge", shortest_edge}}},
          {"do_rescale", false},
          {"do_normalize", false}};
}

ImagePreprocessing Made(const Json& json) {
  auto made = ImagePreprocessing::Parse(json, 3);
  CHECK(made.ok()) << made.status();
  return *std::move(made);
}

// A file is 4 by 6.
ByteImage Resized(int64_t height, int64_t width, Resample resample) {
  return heed::Resized(*DecodeImage(Bytes(kPng)), height, width, resample);
}

TEST(ImagePreprocessing, AShortestEdgeKeepsTheProportionRoundedDown) {
  Json json = Whole();
  json["size"] = {{"shortest_edge", 7}};
  const ImagePreprocessing made = Made(json);
  EXPECT_EQ(made.size().height, 0) << "it depends";
  const ByteImage image = *made.Decode(Bytes(kPng));
  EXPECT_EQ(image.height, 7);
  EXPECT_EQ(image.width, 10) << "of 10.5";
  EXPECT_EQ(image.values, Resized(7, 10, Resample::kBicubic).values);
  json["size"] = {{"shortest_edge", 4}};
  EXPECT_EQ(Made(json).Decode(Bytes(kPng))->values, PngValues());
  ByteImage high{.height = 6, .width = 4, .values = std::vector<uint8_t>(72)};
  json["size"] = {{"shortest_edge", 2}};
  EXPECT_EQ(Made(json).Decode(*EncodePng(high))->height, 3);
}

TEST(ImagePreprocessing, AnEdgeThatBecomesTooLongIsRefused) {
  const ByteImage line{.height = 1, .width = 100, .values = std::vector<uint8_t>(300)};
  Json json = Whole();
  json["size"] = {{"shortest_edge", 400}};
  EXPECT_THAT(Made(json).Decode(*EncodePng(line)).status().message(),
              HasSubstr("height 1 and width 100, and with shortest_edge 400 height 400 and width 40000, "
                        "possible are 32768 a side"));
}

TEST(ImagePreprocessing, TheMiddleIsTakenOfWhatWasResized) {
  Json json = Whole();
  json["size"] = {{"shortest_edge", 8}};
  json["do_center_crop"] = true;
  json["crop_size"] = {{"height", 6}, {"width", 7}};
  const ImagePreprocessing made = Made(json);
  EXPECT_EQ(made.size().height, 6);
  EXPECT_EQ(made.size().width, 7);
  const ByteImage resized = Resized(8, 12, Resample::kBicubic), image = *made.Decode(Bytes(kPng));
  EXPECT_EQ(image.values, Cropped(resized, 6, 7).values);
  EXPECT_EQ(image.values[0], resized.values[(1 * 12 + 2) * 3]);
  json["do_resize"] = false;
  json["crop_size"] = 5;
  const ByteImage framed = *Made(json).Decode(Bytes(kPng));
  EXPECT_EQ(framed.values[0], 0) << "the file has four lines";
  EXPECT_EQ(framed.values[18], PngValues()[3]) << "the second pixel's red";
}

// As openai/clip-vit-base-patch32 says it.
TEST(ImagePreprocessing, AClipsSizeIsItsShortestEdge) {
  const ImagePreprocessing made = Made({{"feature_extractor_type", "CLIPFeatureExtractor"},
                                        {"do_resize", true},
                                        {"size", 8},
                                        {"do_center_crop", true},
                                        {"crop_size", 8},
                                        {"do_normalize", false}});
  EXPECT_EQ(made.Decode(Bytes(kPng))->values, Cropped(Resized(8, 12, Resample::kBicubic), 8, 8).values);
}

TEST(ImagePreprocessing, AConvNextsMiddleIsAPartAndALargeOneIsWhole) {
  EXPECT_EQ(Made(ConvNext(7)).Decode(Bytes(kPng))->values,
            Cropped(Resized(8, 12, Resample::kBicubic), 7, 7).values);
  Json half = ConvNext(5);
  half["crop_pct"] = 0.5;
  EXPECT_EQ(Made(half).Decode(Bytes(kPng))->values,
            Cropped(Resized(10, 15, Resample::kBicubic), 5, 5).values);
  const ByteImage whole = *Made(ConvNext(384)).Decode(Bytes(kPng));
  EXPECT_EQ(whole.height, 384);
  EXPECT_EQ(whole.width, 384);
  EXPECT_EQ(whole.values, Resized(384, 384, Resample::kBicubic).values);
}

TEST(ImagePreprocessing, WhatItDoesNotDoLeavesTheBytes) {
  const auto made = ImagePreprocessing::Parse(
      {{"do_resize", false}, {"do_rescale", false}, {"do_normalize", false}, {"size", 7}}, 3);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->size().height, 0);
  const auto image = Read(*made, kPng);
  EXPECT_EQ(image->height, 4);
  EXPECT_EQ(image->width, 6);
  EXPECT_EQ(image->values[1], PngValues()[3]) << "the second pixel's red";
  EXPECT_EQ(image->values[24], PngValues()[1]) << "the first pixel's green";
}

TEST(ImagePreprocessing, AModelOfOneChannelReadsGrey) {
  const auto made = ImagePreprocessing::Parse(
      {{"do_resize", false}, {"do_normalize", true}, {"image_mean", 0.5}, {"image_std", {0.25}}}, 1);
  ASSERT_TRUE(made.ok()) << made.status();
  for (const char* file : {kPng, kGreyPng}) {
    const auto image = Read(*made, file);
    ASSERT_EQ(image->values.size(), 24u);
    EXPECT_EQ(image->values[1], (static_cast<float>(141 / 255.0) - 0.5f) / 0.25f);
  }
}

TEST(ImagePreprocessing, EveryRefusalNamesTheKeyTheValueAndTheLimit) {
  struct Case {
    Json json;
    std::vector<std::string> says;
  };
  Json no_size = Whole(), no_mean = Whole();
  no_size.erase("size");
  no_mean.erase("image_mean");
  const Case cases[] = {
      {Json::array(), {"preprocessor_config.json", "not an object"}},
      {no_size, {"size", "missing"}},
      {With(Whole(), "size", 0), {"size", "0", "1"}},
      {With(Whole(), "size", 2049), {"size", "2049", "2048"}},
      {With(Whole(), "size", Json::object()), {"size", "height"}},
      {With(Whole(), "size", {{"shortest_edge", 2049}}), {"size", "shortest_edge", "2049", "2048"}},
      {With(Whole(), "size", {{"shortest_edge", 8}, {"longest_edge", 9}}), {"size", "longest_edge"}},
      {With(Whole(), "size", {{"height", 4}, {"width", 1 << 20}}), {"size", "width", "1048576", "2048"}},
      {With(Whole(), "resample", 1), {"resample", "1", "2"}},
      {With(Whole(), "resample", 4), {"resample", "4", "3"}},
      {With(Whole(), "rescale_factor", 0), {"rescale_factor", "0"}},
      {With(Whole(), "rescale_factor", 1e300), {"rescale_factor", "1e+300"}},
      {no_mean, {"image_mean", "null", "3 numbers"}},
      {With(Whole(), "image_mean", {1, 2}), {"image_mean", "[1,2]", "1 or 3"}},
      {With(Whole(), "image_mean", {1, "2", 3}), {"image_mean"}},
      {With(Whole(), "image_std", {1, 0, 1}), {"image_std", "[1,0,1]", "1e-06"}},
      {With(Whole(), "image_std", 0), {"image_std", "0"}},
      {With(Whole(), "do_resize", 1), {"do_resize", "1"}},
      {With(Whole(), "do_center_crop", true), {"crop_size", "missing"}},
      {With(With(Whole(), "do_center_crop", true), "crop_size", 0), {"crop_size", "0", "1"}},
      {With(With(Whole(), "do_center_crop", true), "crop_size", {{"height", 2}}), {"crop_size", "width"}},
      {With(Whole(), "crop_pct", 0.5), {"crop_pct"}},
      {With(Whole(), "image_processor_type", "CLIPImageProcessor"), {"crop_size", "missing"}},
      {With(Whole(), "image_processor_type", "ConvNextImageProcessor"), {"size", "shortest_edge"}},
      {With(ConvNext(224), "crop_pct", 1.5), {"crop_pct", "1.5", "1"}},
  };
  for (const Case& c : cases) {
    const auto made = ImagePreprocessing::Parse(c.json, 3);
    ASSERT_FALSE(made.ok()) << Shown(c.json);
    for (const std::string& word : c.says) EXPECT_THAT(made.status().message(), HasSubstr(word));
  }
  EXPECT_THAT(ImagePreprocessing::Parse(Whole(), 4).status().message(), HasSubstr("4 channels"));
}

TEST(ImagePreprocessing, AFolderMayHaveNone) {
  const TempFolder folder;
  EXPECT_EQ(*ImagePreprocessing::Load(folder.path(), 3), nullptr);
  folder.Write("preprocessor_config.json", CanonicalText(Whole()));
  const auto made = ImagePreprocessing::Load(folder.path(), 3);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->size().width, 4);
  folder.Write("preprocessor_config.json", "{");
  EXPECT_THAT(ImagePreprocessing::Load(folder.path(), 3).status().message(),
              HasSubstr("preprocessor_config.json"));
}

}  // namespace
}  // namespace heed
