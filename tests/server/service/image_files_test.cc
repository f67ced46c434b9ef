// Images as PNG and JPEG files: they are answered as the pixels that the model's preprocessing makes of them,
// over a real socket; and what is refused of them, by calls and at load.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/images/png_file.h"
#include "engine/images/preprocessing.h"
#include "gtest/gtest.h"
#include "server/registry.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/engine/images/files.h"
#include "tests/server/service/cases.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using testing::HasSubstr;

// Of 3 channels or 1, made for 8 x 12 pixels in patches of 2 x 2.
Json PhotoConfig(int channels, bool fixed = false) {
  return {
      {"model_type", "heed"},
      {"architecture", "encoder"},
      {"input", {{"kind", "patches"}, {"image_size", {8, 12}}, {"patch_size", 2}, {"channels", channels}}},
      {"hidden_size", 16},
      {"num_attention_heads", 4},
      {"intermediate_size", 32},
      {"positions", fixed ? "learned" : "sinusoidal"},
      {"layers", {{{"attention", {{"type", "full"}}}}}},
      {"head", "classification"},
      {"num_labels", 3},
      {"pooling", "mean"}};
}

Json Resizing() {
  return {{"size", {{"height", 8}, {"width", 12}}}, {"image_mean", 0.5}, {"image_std", 0.5}};
}
Json AsTheyAre() { return {{"do_resize", false}, {"do_normalize", false}}; }

Json Cutting() {
  return {{"size", {{"shortest_edge", 12}}},
          {"do_center_crop", true},
          {"crop_size", {{"height", 8}, {"width", 12}}},
          {"do_normalize", false}};
}

struct Photo {
  int channels = 3;
  bool fixed = false;
  Json preprocessing;
};

const std::map<std::string, Photo>& Photos() {
  static const std::map<std::string, Photo> photos = {
      {"colour", {3, false, Resizing()}}, {"grey", {1, false, Resizing()}},  {"cut", {3, true, Cutting()}},
      {"any", {3, false, AsTheyAre()}},   {"fixed", {3, true, AsTheyAre()}}, {"pixels", {3, false, nullptr}}};
  return photos;
}

absl::StatusOr<LoadedModel> Loaded(const Photo& photo) {
  LoadedModel loaded{.model = MakeRandomModel(PhotoConfig(photo.channels, photo.fixed)).model};
  if (photo.preprocessing.is_null()) return loaded;
  ASSIGN_OR_RETURN(ImagePreprocessing made, ImagePreprocessing::Parse(photo.preprocessing, photo.channels));
  loaded.preprocessing = std::make_unique<const ImagePreprocessing>(std::move(made));
  return loaded;
}

std::unique_ptr<World> PhotosWorld() {
  World::Models models;
  for (const auto& [name, photo] : Photos()) models[name] = [photo] { return Loaded(photo); };
  return World::Ready(std::move(models),
                      [](config::v1::ServerConfig& config) { config.mutable_limits()->set_tokens(30); });
}

v1::Input FileOf(const std::string& bytes) {
  v1::Input input;
  input.mutable_image()->set_encoded(bytes);
  return input;
}

// The same image as what its model's preprocessing makes of it.
v1::Input PixelsOf(const std::string& model, const std::string& bytes) {
  const Photo& photo = Photos().at(model);
  const ImagePreprocessing made = *ImagePreprocessing::Parse(photo.preprocessing, photo.channels);
  const FloatImage image = made.Normalized(*made.Decode(bytes));
  v1::Input input;
  v1::Pixels* pixels = input.mutable_image()->mutable_pixels();
  pixels->set_channels(photo.channels);
  pixels->set_height(static_cast<int32_t>(image.height));
  pixels->set_width(static_cast<int32_t>(image.width));
  pixels->mutable_values()->Add(image.values.begin(), image.values.end());
  return input;
}

v1::ClassifyRequest Asking(const std::string& model, const std::vector<v1::Input>& inputs) {
  v1::ClassifyRequest request;
  request.mutable_target()->set_model(model);
  for (const v1::Input& input : inputs) *request.add_inputs() = input;
  return request;
}

TEST(ImageFiles, AreAnsweredAsThePixelsThatTheyAreMadeInto) {
  auto world = PhotosWorld();
  const std::pair<std::string, const char*> cases[] = {{"colour", kPng},    {"colour", kJpeg}, {"grey", kPng},
                                                       {"grey", kGreyJpeg}, {"cut", kJpeg},    {"any", kPng}};
  for (const auto& [model, file] : cases) {
    SCOPED_TRACE(model);
    const std::string bytes = Bytes(file);
    v1::ClassifyResponse response;
    const auto request = Asking(model, {FileOf(bytes), PixelsOf(model, bytes)});
    ASSERT_TRUE(world->inference()->Classify(NewContext().get(), request, &response).ok());
    ASSERT_TRUE(response.results(0).has_value()) << response.results(0).error().message();
    const v1::Classification &told = response.results(0).value(), &expected = response.results(1).value();
    ASSERT_EQ(told.labels_size(), 3);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(told.labels(i).ShortDebugString(), expected.labels(i).ShortDebugString());
    EXPECT_EQ(told.usage().input_tokens(), model == "any" ? 6 : 24) << "patches";
  }
}

TEST(ImageFiles, ThatAreWrongAreToldWhy) {
  auto world = PhotosWorld();
  const std::string png = Bytes(kPng), jpeg = Bytes(kJpeg);
  struct Case {
    std::string model, bytes, reason, message;
  };
  const Case cases[] = {
      {"colour", "", "INPUT_EMPTY", "no bytes"},
      {"colour", "GIF89a", "INVALID_VALUE", "neither as a PNG nor as a JPEG"},
      {"colour", png.substr(0, png.size() / 2), "INVALID_VALUE", "the PNG file cannot be read"},
      {"colour", jpeg.substr(0, jpeg.size() / 2), "INVALID_VALUE", "the JPEG file cannot be read"},
      {"colour", Bytes(kCmykJpeg), "INVALID_VALUE", "the JPEG file cannot be read"},
      {"pixels", png, "INVALID_VALUE", "'pixels' takes pixels only: its preprocessor_config.json"},
      {"fixed", png, "INVALID_VALUE", "height 4 and width 6, 'fixed' reads images of 8 by 12"},
      {"any", Bytes(kFinePng), "INVALID_VALUE", "height 2 and width 3, which must be multiples of 2"},
      {"any", jpeg, "INPUT_TOO_LONG", "the input has 64 patches, 'any' reads at most 30"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    ExpectTold(Ask(*world, Asking(c.model, {FileOf(c.bytes)})).status,
               {.reason = c.reason, .field = "inputs[0].image.encoded", .message = c.message});
  }
  const Outcome both = Ask(*world, Asking("colour", {FileOf("GIF89a"), FileOf(png)}));
  EXPECT_FALSE(both.Answered(0));
  EXPECT_TRUE(both.Answered(1));
}

TEST(ImageFiles, TakeMemoryAsLongAsTheyAreWorkedOn) {
  World world({{"any", [] { return Loaded({3, false, AsTheyAre()}); }}},
              [](config::v1::ServerConfig& config) {
                config.mutable_limits()->set_answer_bytes(65536);
                config.mutable_limits()->set_answers_bytes(100'000);
              });
  ASSERT_TRUE(world.server().Load().ok());
  const auto file = [](int64_t side) {
    return FileOf(
        *EncodePng({.height = side, .width = side, .values = std::vector<uint8_t>(3 * side * side)}));
  };
  ExpectTold(Ask(world, Asking("any", {file(54)})).status,
             {.reason = "ANSWER_TOO_LARGE",
              .field = "inputs[0].image.encoded",
              .message = "the image takes 69984 bytes once it is decoded, at most 65536 are possible"});
  const auto answered = [&] { return Ask(world, Asking("any", {file(52)})).status.ok(); };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Eventually(answered)) << "64,896 bytes each, which are given back";
}

TEST(ImageFiles, ADescriptionSaysWhetherTheyAreTaken) {
  auto world = PhotosWorld();
  const auto describe = [&](const std::string& model) { return DescriptionOf(*world, model).image_input(); };
  EXPECT_TRUE(describe("colour").files());
  EXPECT_EQ(describe("colour").resized_height(), 8);
  EXPECT_EQ(describe("colour").resized_width(), 12);
  EXPECT_EQ(describe("cut").resized_height(), 0);
  EXPECT_EQ(describe("cut").resized_shortest_edge(), 12);
  EXPECT_EQ(describe("cut").cropped_height(), 8);
  EXPECT_EQ(describe("cut").cropped_width(), 12);
  EXPECT_TRUE(describe("any").files());
  EXPECT_EQ(describe("any").resized_height(), 0);
  EXPECT_FALSE(describe("pixels").files());
}

TEST(ImageFiles, AFolderWhosePreprocessingDoesNotFitTheModelIsRefused) {
  const TempFolder folder;
  const std::string golden = std::string(HEED_SOURCE_DIR) + "/tests/golden/native/image-vit-cls";
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy(golden + "/" + name, folder / name);
  const ModelSpec spec{.name = "vit", .folder = folder.path()};
  const auto load = [&](const Json& preprocessing) {
    folder.Write("preprocessor_config.json", CanonicalText(preprocessing));
    return LoadFromFolder(spec);
  };
  EXPECT_EQ(LoadFromFolder(spec)->preprocessing, nullptr);
  const Json normal = {{"size", 28}, {"image_mean", 0.5}, {"image_std", 0.5}};
  Json large = normal, unknown = normal, cut = normal;
  large["size"] = 32;
  unknown["do_pad"] = true;
  cut["size"] = {{"shortest_edge", 32}};
  cut["do_center_crop"] = true;
  cut["crop_size"] = 28;
  EXPECT_NE(load(normal)->preprocessing, nullptr);
  EXPECT_NE(load(cut)->preprocessing, nullptr);
  EXPECT_THAT(load(large).status().message(),
              HasSubstr("preprocessor_config.json: size 32 by 32; the model reads images of 28 by 28"));
  EXPECT_THAT(load(unknown).status().message(), HasSubstr("do_pad"));
  cut["crop_size"] = 32;
  EXPECT_THAT(load(cut).status().message(), HasSubstr("size 32 by 32; the model reads images of 28 by 28"));
}

}  // namespace
}  // namespace heed
