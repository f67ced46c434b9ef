// Inputs that are no text: sets of vectors, and images as pixels. Real (small, random) models answer over a
// real socket what the engine says of them.
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/models/patches.h"
#include "engine/weights/weights.h"
#include "gtest/gtest.h"
#include "tests/server/service/cases.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

constexpr int64_t kLongest = 100;  // rows of an input, by the server's limit

Json PointsConfig() {
  return {{"model_type", "heed"},
          {"architecture", "set-encoder"},
          {"input_size", 3},
          {"hidden_size", 16},
          {"num_attention_heads", 4},
          {"blocks", {{{"type", "isab"}, {"num_inducing", 4}}, {{"type", "pma"}, {"num_seeds", 1}}}},
          {"head", "classification"},
          {"num_labels", 4}};
}

// Of 2 channels, made for 8 x 12 pixels in patches of 2 x 2.
Json PictureConfig(const std::string& head, bool fixed) {
  Json config = {
      {"model_type", "heed"},
      {"architecture", "encoder"},
      {"input", {{"kind", "patches"}, {"image_size", {8, 12}}, {"patch_size", 2}, {"channels", 2}}},
      {"hidden_size", 16},
      {"num_attention_heads", 4},
      {"intermediate_size", 32},
      {"positions", fixed ? "learned" : "sinusoidal"},
      {"layers", {{{"attention", {{"type", "full"}}}}}},
      {"head", head},
      {"pooling", "mean"}};
  if (head == "classification") config["num_labels"] = 3;
  return config;
}

struct Named {
  std::string name;
  Json config;
};

std::vector<Named> AllModels() {
  return {{"points", PointsConfig()},
          {"picture", PictureConfig("classification", /*fixed=*/false)},
          {"fixed", PictureConfig("classification", /*fixed=*/true)},
          {"embedder", PictureConfig("none", /*fixed=*/false)}};
}

std::unique_ptr<World> NumbersWorld() {
  World::Models models;
  for (const Named& named : AllModels()) {
    models[named.name] = [config = named.config] {
      return LoadedModel{.model = MakeRandomModel(config).model};
    };
  }
  return World::Ready(std::move(models), [](config::v1::ServerConfig& config) {
    config.mutable_limits()->set_tokens(kLongest);
  });
}

std::vector<float> Random(int64_t count, int seed) {
  std::minstd_rand random(seed + 1);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = std::normal_distribution<float>()(random);
  return numbers;
}

v1::Input VectorsOf(int64_t n, int seed) {
  v1::Input input;
  input.mutable_vectors()->set_size(3);
  for (float x : Random(3 * n, seed)) input.mutable_vectors()->add_values(x);
  return input;
}

v1::Input PixelsOf(int32_t height, int32_t width, int seed) {
  v1::Input input;
  v1::Pixels* pixels = input.mutable_image()->mutable_pixels();
  pixels->set_channels(2);
  pixels->set_height(height);
  pixels->set_width(width);
  for (float x : Random(int64_t{2} * height * width, seed)) pixels->add_values(x);
  return input;
}

// What the engine answers to an input alone.
std::vector<float> Expected(const Json& config, const v1::Input& input) {
  const RandomModel model = MakeRandomModel(config);
  const auto sequence = model->Start();
  std::vector<float> output;
  std::vector<Work> batch(1);
  Work& work = batch[0];
  work.sequence = sequence.get();
  if (input.has_vectors()) {
    work.numbers = {input.vectors().values().begin(), input.vectors().values().end()};
  } else {
    const v1::Pixels& pixels = input.image().pixels();
    const std::vector<float> values(pixels.values().begin(), pixels.values().end());
    work.numbers = Patches(values, pixels.channels(), pixels.height(), pixels.width(), 2);
    work.columns = pixels.width() / 2;
  }
  work.wanted = {0};
  work.read = [&](int32_t, std::span<const float> row) { output.assign(row.begin(), row.end()); };
  Threads threads(1);
  const auto pass = model->Begin(&batch);
  while (pass->Advance(threads)) {
  }
  return output;
}

v1::ClassifyResponse Classified(World& world, const std::string& model,
                                const std::vector<v1::Input>& inputs) {
  v1::ClassifyRequest request;
  request.mutable_target()->set_model(model);
  request.mutable_options()->set_raw_scores(true);
  for (const v1::Input& input : inputs) *request.add_inputs() = input;
  v1::ClassifyResponse response;
  const grpc::Status status = world.inference()->Classify(NewContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

std::vector<float> ScoresOf(const v1::Classification& classification) {
  std::vector<float> scores(classification.labels_size());
  for (const v1::LabelScore& label : classification.labels()) scores.at(label.index()) = label.score();
  return scores;
}

void ExpectAnswered(World& world, const Named& model, const std::vector<v1::Input>& inputs,
                    const std::vector<int32_t>& rows) {
  const v1::ClassifyResponse response = Classified(world, model.name, inputs);
  ASSERT_EQ(response.results_size(), std::ssize(inputs));
  for (int i = 0; i < response.results_size(); ++i) {
    ASSERT_TRUE(response.results(i).has_value()) << response.results(i).error().message();
    EXPECT_EQ(ScoresOf(response.results(i).value()), Expected(model.config, inputs[i])) << i;
    EXPECT_EQ(response.results(i).value().usage().input_tokens(), rows[i]);
  }
}

TEST(Numbers, OfSetsAreClassifiedTheSameInAnyCompany) {
  auto world = NumbersWorld();
  ExpectAnswered(*world, AllModels()[0], {VectorsOf(1, 1), VectorsOf(100, 2), VectorsOf(37, 3)},
                 {1, 100, 37});
  ExpectAnswered(*world, AllModels()[0], {VectorsOf(37, 3)}, {37});
}

TEST(Numbers, OfImagesOfAnySizeAreClassifiedTheSameInAnyCompany) {
  auto world = NumbersWorld();
  ExpectAnswered(*world, AllModels()[1], {PixelsOf(2, 2, 1), PixelsOf(8, 12, 2), PixelsOf(20, 4, 3)},
                 {1, 24, 20});
  ExpectAnswered(*world, AllModels()[2], {PixelsOf(8, 12, 4)}, {24});
}

TEST(Numbers, OfImagesAreEmbedded) {
  auto world = NumbersWorld();
  v1::EmbedRequest request;
  request.mutable_target()->set_model("embedder");
  *request.add_inputs() = PixelsOf(4, 6, 5);
  v1::EmbedResponse response;
  ASSERT_TRUE(world->inference()->Embed(NewContext().get(), request, &response).ok());
  const auto& vector = response.results(0).value().vector();
  EXPECT_EQ(std::vector<float>(vector.begin(), vector.end()),
            Expected(AllModels()[3].config, request.inputs(0)));
}

// ----------------------------------------------------------------------------------- the oracle's cases

std::string GoldenFolder(const std::string& name) {
  return Cat(HEED_SOURCE_DIR, "/tests/golden/native/", name);
}

v1::Input InputOf(const std::string& kind, const Tensor& tensor) {
  v1::Input input;
  const std::vector<float> values = ToFloats(tensor);
  if (kind == "inputs") {
    input.mutable_vectors()->set_size(static_cast<int32_t>(tensor.dim(1)));
    input.mutable_vectors()->mutable_values()->Add(values.begin(), values.end());
    return input;
  }
  v1::Pixels* pixels = input.mutable_image()->mutable_pixels();
  pixels->set_channels(static_cast<int32_t>(tensor.dim(0)));
  pixels->set_height(static_cast<int32_t>(tensor.dim(1)));
  pixels->set_width(static_cast<int32_t>(tensor.dim(2)));
  pixels->mutable_values()->Add(values.begin(), values.end());
  return input;
}

TEST(Numbers, OfTheOraclesCasesAreClassifiedAsItSays) {
  World::Models models;
  for (const char* name : {"set-isab-pma-classification", "image-vit-cls", "image-vit-mean", "image-swin"}) {
    models[name] = [name]() -> absl::StatusOr<LoadedModel> {
      ASSIGN_OR_RETURN(auto model, LoadModel(GoldenFolder(name), {}));
      return LoadedModel{.model = std::move(model)};
    };
  }
  auto world = World::Ready(models);
  for (const auto& [name, make] : models) {
    SCOPED_TRACE(name);
    const auto cases = Weights::LoadFile(GoldenFolder(name) + "/cases.safetensors");
    ASSERT_TRUE(cases.ok()) << cases.status();
    std::vector<v1::Input> inputs;
    std::vector<std::vector<float>> expected;
    for (const auto& [key, shape] : (*cases)->tensors()) {  // in their order: "c0.inputs", "c0.logits", ...
      const std::string kind = key.substr(key.find('.') + 1);
      const Tensor tensor = *(*cases)->Read(key);
      if (kind == "logits")
        expected.push_back(ToFloats(tensor));
      else
        inputs.push_back(InputOf(kind, tensor));
    }
    const v1::ClassifyResponse response = Classified(*world, name, inputs);
    ASSERT_EQ(response.results_size(), std::ssize(expected));
    ASSERT_GE(response.results_size(), 2);
    for (int i = 0; i < response.results_size(); ++i) {
      const std::vector<float> scores = ScoresOf(response.results(i).value());
      ASSERT_EQ(scores.size(), expected[i].size());
      for (size_t j = 0; j < scores.size(); ++j)
        EXPECT_NEAR(scores[j], expected[i][j], 1e-4 + 1e-4 * std::abs(expected[i][j]));
    }
  }
}

// ------------------------------------------------------------------------------------------ what is refused

struct BadNumbers {
  std::string model;
  v1::Input input;
  std::string reason, field;  // after "inputs[0]"
  std::string message;
};

v1::Input Changed(v1::Input input, const std::function<void(v1::Input&)>& change) {
  change(input);
  return input;
}

std::vector<BadNumbers> BadVectors() {
  const v1::Input good = VectorsOf(2, 1);
  const auto with = [&](const std::function<void(v1::Vectors&)>& change) {
    return Changed(good, [&](v1::Input& input) { change(*input.mutable_vectors()); });
  };
  const std::string field = ".vectors";
  return {
      {"points", with([](v1::Vectors& v) { v.set_size(2); }), "INVALID_VALUE", field,
       "size is 2, 'points' reads vectors of 3"},
      {"points", with([](v1::Vectors& v) { v.set_size(0); }), "INVALID_VALUE", field, "size is 0"},
      {"points", with([](v1::Vectors& v) { v.clear_values(); }), "INPUT_EMPTY", field, "no values"},
      {"points", with([](v1::Vectors& v) { v.add_values(1); }), "INVALID_VALUE", field,
       "there are 7 values, no multiple of size 3"},
      {"points", with([](v1::Vectors& v) { v.set_values(4, std::nanf("")); }), "INVALID_VALUE", field,
       "values[4] is nan"},
      {"points", with([](v1::Vectors& v) { v.set_values(0, -std::numeric_limits<float>::infinity()); }),
       "INVALID_VALUE", field, "values[0] is -inf"},
      {"points", VectorsOf(kLongest + 1, 1), "INPUT_TOO_LONG", field,
       "the input has 101 vectors, 'points' reads at most 100"},
      {"points", Text("fine"), "INPUT_KIND_UNSUPPORTED", ".text",
       "'points' does not read text, it reads vectors"},
      {"points", TokensOf({1, 2, 3}), "INPUT_KIND_UNSUPPORTED", ".tokens", "it reads vectors"},
      {"points", PixelsOf(8, 12, 1), "INPUT_KIND_UNSUPPORTED", ".image", "it reads vectors"},
      {"picture", good, "INPUT_KIND_UNSUPPORTED", ".vectors", "it reads image"},
  };
}

std::vector<BadNumbers> BadImages() {
  const auto with = [](const std::function<void(v1::Pixels&)>& change) {
    return Changed(PixelsOf(8, 12, 1),
                   [&](v1::Input& input) { change(*input.mutable_image()->mutable_pixels()); });
  };
  const std::string field = ".image.pixels";
  v1::Input empty;
  empty.mutable_image();
  return {
      {"picture", empty, "INPUT_EMPTY", ".image", "no content"},
      {"picture", with([](v1::Pixels& p) { p.set_channels(3); }), "INVALID_VALUE", field,
       "channels is 3, 'picture' reads images of 2"},
      {"picture", with([](v1::Pixels& p) { p.set_height(0); }), "INVALID_VALUE", field, "height 0"},
      {"picture", with([](v1::Pixels& p) { p.set_width(-12); }), "INVALID_VALUE", field, "width -12"},
      {"picture", with([](v1::Pixels& p) { p.set_height(7); }), "INVALID_VALUE", field, "multiples of 2"},
      {"picture", with([](v1::Pixels& p) { p.set_height(10); }), "INVALID_VALUE", field,
       "there are 192 values, channels * height * width is 240"},
      {"picture", with([](v1::Pixels& p) { p.set_values(7, std::nanf("")); }), "INVALID_VALUE", field,
       "values[7] is nan"},
      {"picture", with([](v1::Pixels& p) { p.set_height(2147483646), p.set_width(2147483646); }),
       "INPUT_TOO_LONG", field, "patches, 'picture' reads at most 100"},
      {"picture", PixelsOf(22, 20, 1), "INPUT_TOO_LONG", field, "110 patches, 'picture' reads at most 100"},
      {"fixed", PixelsOf(12, 8, 1), "INVALID_VALUE", field,
       "height 12 and width 8, 'fixed' reads images of 8 by 12"},
  };
}

TEST(Numbers, ThatAreWrongAreToldWhy) {
  auto world = NumbersWorld();
  std::vector<BadNumbers> cases = BadVectors();
  for (BadNumbers& bad : BadImages()) cases.push_back(std::move(bad));
  for (const BadNumbers& bad : cases) {
    SCOPED_TRACE(Cat(bad.model, ": ", bad.message));
    v1::ClassifyRequest request;
    request.mutable_target()->set_model(bad.model);
    *request.add_inputs() = bad.input;
    ExpectTold(Ask(*world, request).status,
               {.reason = bad.reason, .field = Cat("inputs[0]", bad.field), .message = bad.message});
  }
  ExpectAnswered(*world, AllModels()[0], {VectorsOf(5, 1)}, {5});
}

TEST(Numbers, ADescriptionSaysWhichAreRead) {
  auto world = NumbersWorld();
  const auto describe = [&](const std::string& model) { return DescriptionOf(*world, model); };
  const v1::ModelDescription points = describe("points");
  ASSERT_EQ(points.inputs_size(), 1);
  EXPECT_EQ(points.inputs(0), v1::INPUT_KIND_VECTORS);
  EXPECT_EQ(points.vector_size(), 3);
  EXPECT_FALSE(points.has_image_input());
  for (const std::string name : {"picture", "fixed"}) {
    const v1::ModelDescription picture = describe(name);
    ASSERT_EQ(picture.inputs_size(), 1);
    EXPECT_EQ(picture.inputs(0), v1::INPUT_KIND_IMAGE);
    EXPECT_EQ(picture.vector_size(), 0);
    EXPECT_EQ(picture.image_input().channels(), 2);
    EXPECT_EQ(picture.image_input().height(), 8);
    EXPECT_EQ(picture.image_input().width(), 12);
    EXPECT_EQ(picture.image_input().patch_size(), 2);
    EXPECT_EQ(picture.image_input().fixed(), name == "fixed");
  }
}

}  // namespace
}  // namespace heed
