// Images in encoders: rows of patches, stages with merges between them, sizes that differ in one batch.
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "engine/models/native.h"
#include "engine/models/patches.h"
#include "engine/models/transformer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using Output = std::vector<float>;

constexpr int64_t kChannels = 2, kPatch = 2;

Json Input(const Json& size) {
  return {{"kind", "patches"}, {"image_size", size}, {"patch_size", kPatch}, {"channels", kChannels}};
}

// Layers one after another.
Json PlainConfig(const Json& size, const Json& attention = {{"type", "full"}}) {
  Json config = SmallConfig("encoder", "none", attention);
  config.erase("vocab_size");
  config["input"] = Input(size);
  return config;
}

// Two layers in each of so many stages, the second of shifted windows.
Json StagedConfig(const Json& size, int stages, int64_t window) {
  Json config = PlainConfig(size);
  config.erase("layers");
  config["hidden_size"] = 16;
  for (int s = 0; s < stages; ++s) {
    Json layers = Json::array();
    for (int64_t shift : {int64_t{0}, window / 2}) {
      layers.push_back({{"attention", {{"type", "window_2d"}, {"window", window}, {"shift", shift}}}});
    }
    config["stages"].push_back(
        {{"layers", layers}, {"num_attention_heads", 2 << s}, {"intermediate_size", 40}});
  }
  return config;
}

// An image, as the request brings it.
struct Image {
  int64_t columns = 0;
  std::vector<float> numbers;

  Image(int64_t height, int64_t width, int seed = 1) : columns(width / kPatch) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> pixels(kChannels * height * width);
    for (float& x : pixels) x = normal(random);
    numbers = Patches(pixels, kChannels, height, width, kPatch);
  }
  int64_t rows() const { return std::ssize(numbers) / (kChannels * kPatch * kPatch); }
};

Work Asking(const Model& model, const Image& image, Sequence* sequence, Output* out) {
  Work work{.sequence = sequence, .numbers = image.numbers, .columns = image.columns};
  work.wanted.resize(model.Answers(image.rows(), image.columns));
  std::iota(work.wanted.begin(), work.wanted.end(), 0);
  work.read = [out](int32_t, std::span<const float> row) { out->insert(out->end(), row.begin(), row.end()); };
  return work;
}

// Of all in one batch; `dropped` is nobody's any more after the first layers.
std::vector<Output> Together(const Model& model, const std::vector<Image>& images, int threads_count,
                             int dropped = -1) {
  Threads threads(threads_count);
  std::vector<Output> outputs(images.size());
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Work> batch;
  for (size_t i = 0; i < images.size(); ++i) {
    sequences.push_back(model.Start());
    batch.push_back(Asking(model, images[i], sequences.back().get(), &outputs[i]));
  }
  const auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
    if (dropped >= 0) pass->Drop(dropped);
  }
  return outputs;
}

Output Alone(const Model& model, const Image& image) { return Together(model, {image}, 1)[0]; }

std::vector<Precision> Precisions() { return {Precision::kF32, Precision::kBf16, Precision::kInt8}; }

TEST(ImageStack, PatchesAreChannelAfterChannelAndRowAfterRow) {
  std::vector<float> pixels(2 * 4 * 6);
  std::iota(pixels.begin(), pixels.end(), 0.0f);
  const std::vector<float> rows = Patches(pixels, 2, 4, 6, 2);
  EXPECT_EQ(Output(rows.begin() + 8, rows.begin() + 16), (Output{2, 3, 8, 9, 26, 27, 32, 33}))
      << "the second";
  EXPECT_EQ(Output(rows.end() - 8, rows.end()), (Output{16, 17, 22, 23, 40, 41, 46, 47})) << "the last";
}

TEST(ImageStack, OfAnySizeAnswersForEveryRowThatIsLeft) {
  const RandomModel model = MakeRandomModel(StagedConfig(32, 3, 4));
  EXPECT_EQ(model->info().input.ids, 0);
  EXPECT_EQ(model->info().input.numbers, 8);
  EXPECT_FALSE(model->info().image.fixed);
  EXPECT_EQ(model->info().output_width, 64);
  EXPECT_EQ(model->Answers(15, 5), 2) << "3 x 5, 2 x 3, 1 x 2";
  EXPECT_EQ(model->Answers(256, 16), 16);
  for (const Image& image : {Image(6, 10), Image(32, 32), Image(2, 2), Image(2, 80), Image(70, 4)}) {
    const Output output = Alone(*model, image);
    EXPECT_EQ(std::ssize(output), 64 * model->Answers(image.rows(), image.columns));
    EXPECT_TRUE(std::ranges::all_of(output, [](float x) { return std::abs(x) < 1e3f; }));
  }
}

// Rows of zeros stay zeros where nothing has a bias and a row attends to itself alone.
TEST(ImageStack, MergesTakeZerosBeyondOddSides) {
  Json config = StagedConfig(32, 2, 1);
  config["norm_type"] = "rms";
  config["attention_bias"] = false;
  for (Json& stage : config["stages"]) {
    for (Json& layer : stage["layers"]) layer["attention"]["relative_bias"] = false;
  }
  const RandomModel model = MakeRandomModel(config);
  const Image odd(6, 10);  // 3 x 5 patches
  Image even(8, 12);       // 4 x 6
  std::ranges::fill(even.numbers, 0.0f);
  for (int64_t line = 0; line < 3; ++line)
    std::copy_n(&odd.numbers[line * 5 * 8], 5 * 8, &even.numbers[line * 6 * 8]);
  const Output output = Alone(*model, odd);
  EXPECT_EQ(output, Alone(*model, even));
  EXPECT_EQ(std::ssize(output), 2 * 3 * 32);
}

TEST(ImageStack, HasTheSameBitsInAnyCompanyAndOnAnyThreads) {
  Json vit = PlainConfig({12, 20});
  vit["input"]["cls_token"] = true;
  vit["positions"] = "sinusoidal";
  Json pooled = StagedConfig(40, 3, 5);
  pooled["head"] = "classification";
  pooled["pooling"] = "mean";
  pooled["num_labels"] = 3;
  pooled["input"]["patch_norm"] = true;
  Json reversible = vit;
  reversible["reversible"] = true;
  for (const Json& config : {vit, pooled, reversible, StagedConfig(32, 2, 4)}) {
    for (Precision precision : Precisions()) {
      const RandomModel model = MakeRandomModel(config, precision);
      const std::vector<Image> images = {Image(40, 40, 1), Image(2, 2, 2),   Image(6, 90, 3),
                                         Image(90, 6, 4),  Image(14, 26, 5), Image(64, 66, 6)};
      std::vector<Output> alone;
      for (const Image& image : images) alone.push_back(Alone(*model, image));
      for (int threads : {1, 2, 7}) {
        EXPECT_EQ(Together(*model, images, threads), alone) << config.dump() << Name(precision) << threads;
        const std::vector<Output> left = Together(*model, images, threads, /*dropped=*/0);
        EXPECT_EQ(Output(), left[0]);
        EXPECT_TRUE(std::equal(left.begin() + 1, left.end(), alone.begin() + 1)) << threads;
      }
    }
  }
}

// Layers that add nothing leave them as they began, and a norm of two equal halves is twice the norm of one.
TEST(ImageStack, TwoStreamsBeginAlike) {
  Json one = PlainConfig(8), two = one;
  two["reversible"] = true;
  const auto without_effect = [](const Json& config) {
    std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
    for (auto& [name, tensor] : tensors) {
      const bool adds = name.find(".o.") != name.npos || name.find(".down.") != name.npos;
      if (!adds && !name.starts_with("norm.")) continue;
      const auto numbers = std::make_shared<Buffer>(Buffer::Zeros(tensor.size() * SizeOf(DType::kF32)));
      std::fill_n(numbers->as<float>(), tensor.size(), adds || name == "norm.bias" ? 0.0f : 1.0f);
      tensor = {DType::kF32, tensor.shape, numbers->as<float>(), numbers};
    }
    auto model = NewNativeModel(config, *Weights::Of(tensors), {});
    CHECK(model.ok()) << model.status();
    return *std::move(model);
  };
  const Image image(8, 8);
  const Output single = Alone(*without_effect(one), image), both = Alone(*without_effect(two), image);
  ASSERT_EQ(both.size(), 2 * single.size());
  for (size_t i = 0; i < single.size(); ++i) {
    const float* row = &both[i / 32 * 64];
    ASSERT_NEAR(row[i % 32], single[i], 1e-5) << i;
    ASSERT_NEAR(row[32 + i % 32], single[i], 1e-5) << i;
  }
}

TEST(ImageStack, AClassTokenIsTheFirstRow) {
  Json config = PlainConfig(8);
  config["input"]["cls_token"] = true;
  config["positions"] = "learned";
  const RandomModel rows = MakeRandomModel(config);
  EXPECT_EQ(rows->Answers(16, 4), 17);
  config["pooling"] = "first";
  const RandomModel first = MakeRandomModel(config);
  const Output all = Alone(*rows, Image(8, 8));
  EXPECT_EQ(std::ssize(all), 17 * 32);
  EXPECT_EQ(Alone(*first, Image(8, 8)), Output(all.begin(), all.begin() + 32));
}

TEST(ImageStack, PositionsAndSmallWindowsFixTheSize) {
  Json config = PlainConfig({8, 12});
  EXPECT_FALSE(MakeRandomModel(config)->info().image.fixed);
  config["positions"] = "sinusoidal";
  EXPECT_FALSE(MakeRandomModel(config)->info().image.fixed);
  config["positions"] = "learned";
  const RandomModel learned = MakeRandomModel(config);
  EXPECT_TRUE(learned->info().image.fixed);
  EXPECT_EQ(learned->info().image.height, 8);
  EXPECT_EQ(learned->info().image.width, 12);
  EXPECT_EQ(learned->info().max_tokens, 24);
  EXPECT_FALSE(MakeRandomModel(StagedConfig(32, 2, 8))->info().image.fixed) << "windows as large as the grid";
  EXPECT_TRUE(MakeRandomModel(StagedConfig(32, 3, 8))->info().image.fixed) << "windows larger than it";
}

TEST(ImageStack, OfAFixedSizeIsAGridForAxes) {
  Json config = PlainConfig({8, 12}, {{"type", "axial"}, {"axis", "column"}});
  config["positions"] = "learned";
  const RandomModel model = MakeRandomModel(config);
  EXPECT_EQ(model->info().max_tokens, 24);
  EXPECT_EQ(std::ssize(Alone(*model, Image(8, 12))), 24 * 32);
  config["positions"] = "none";
  EXPECT_THAT(TryRandomModel(config).status().message(), testing::HasSubstr("height"));
}

// Of a size that is fixed what is declared is what it is; of any size it is the most that may come.
TEST(ImageStack, DeclaresWhatItHolds) {
  Json reversible = PlainConfig(32);
  reversible["reversible"] = true;
  reversible["positions"] = "learned";
  for (const Json& config : {StagedConfig(32, 3, 8), StagedConfig(32, 3, 4), reversible}) {
    for (Precision precision : Precisions()) {
      for (int threads : {1, 3}) {
        const RandomModel model = MakeRandomModel(config, precision);
        const auto& transformer = static_cast<const Transformer&>(*model);
        const int64_t answers = 2 * model->Answers(256, 16);
        Together(*model, {Image(32, 32, 1), Image(32, 32, 2)}, threads);
        const int64_t declared =
            model->WorkspaceBytes({.rows = 512, .answers = answers, .threads = threads, .works = 2});
        EXPECT_LE(transformer.workspaces().kept_bytes(), declared) << threads;
        if (model->info().image.fixed) {
          EXPECT_GE(transformer.workspaces().kept_bytes(), 0.95 * declared) << threads;
        }
      }
    }
  }
}

TEST(ImageStack, WhateverAnImagesShapeItIsNoMoreThanDeclared) {
  const RandomModel model = MakeRandomModel(StagedConfig(32, 3, 4));
  const Stack& stack = static_cast<const Transformer&>(*model).stack();
  for (int64_t rows : {1, 2, 3, 12, 60, 97, 360}) {
    for (const RowSet& set : stack.sets()) {
      int64_t most = 0;
      for (int64_t columns = 1; columns <= rows; ++columns) {
        if (rows % columns == 0) most = std::max(most, set.count.exact({.rows = rows, .columns = columns}));
      }
      EXPECT_EQ(set.count.exact({.rows = rows}), most) << rows;
      EXPECT_GE(set.count.most({.rows = 3 * rows}, 3), 3 * most) << rows;
      EXPECT_LE(set.count.most({.rows = 3 * rows}, 3), 3 * most + 3) << rows;
    }
    double cost = 0;
    for (int64_t columns = 1; columns <= rows; ++columns) {
      if (rows % columns == 0)
        cost = std::max(cost, stack.multiply_adds({.rows = rows, .columns = columns}, kNoLabels));
    }
    EXPECT_GE(stack.multiply_adds({.rows = rows}, kNoLabels), cost) << rows;
  }
}

// What is wrong with the configuration, and the words that its refusal has.
void ExpectRefused(const Json& config, const std::vector<std::string>& words) {
  const absl::StatusOr<RandomModel> model = TryRandomModel(config);
  ASSERT_FALSE(model.ok()) << config.dump();
  for (const std::string& word : words) EXPECT_THAT(model.status().message(), testing::HasSubstr(word));
}

TEST(ImageStack, RefusesByName) {
  const auto changed = [](Json config, const std::string& pointer, const Json& value) {
    config[Json::json_pointer(pointer)] = value;
    return config;
  };
  const auto without = [](Json config, const std::string& key) {
    config["input"].erase(key);
    return config;
  };
  const Json plain = PlainConfig(8), staged = StagedConfig(32, 2, 4);
  ExpectRefused(changed(plain, "/input/kind", "tokens"), {"input", "kind", "tokens", "patches"});
  ExpectRefused(changed(plain, "/input", 7), {"input"});
  ExpectRefused(without(plain, "channels"), {"input", "channels is missing"});
  ExpectRefused(without(plain, "patch_size"), {"input", "patch_size is missing"});
  ExpectRefused(without(plain, "image_size"), {"input", "image_size is missing"});
  ExpectRefused(changed(plain, "/input/image_size", 9), {"image_size", "9", "patch_size 2"});
  ExpectRefused(changed(plain, "/input/image_size", {8, 8, 8}), {"image_size", "2"});
  ExpectRefused(changed(plain, "/input/image_size", {1 << 20, 1 << 20}), {"image_size", "1048576 x 1048576"});
  ExpectRefused(changed(plain, "/input/channels", 65536), {"patch_size", "65536 channels"});
  ExpectRefused(changed(plain, "/input/channels", int64_t{1} << 62), {"channels", "above 65536"});
  ExpectRefused(changed(plain, "/input/patch_size", 0), {"patch_size", "0", "below 1"});
  ExpectRefused(changed(plain, "/input/cls", true), {"input", "cls"});
  ExpectRefused(changed(plain, "/stages", staged["stages"]), {"layers or stages"});
  ExpectRefused(changed(staged, "/reversible", true), {"reversible", "stages"});
  ExpectRefused(changed(changed(plain, "/reversible", true), "/norm", "post"), {"reversible", "pre"});
  ExpectRefused(changed(staged, "/stages", Json::array()), {"stages", "1 to 16"});
  ExpectRefused(changed(staged, "/hidden_size", 1 << 16), {"hidden_size 65536", "2 stages"});
  ExpectRefused(changed(staged, "/stages/1/num_attention_heads", 33),
                {"stages[1]", "num_attention_heads", "33"});
  ExpectRefused(changed(staged, "/stages/1/heads", 4), {"stages[1]", "heads"});
  ExpectRefused(changed(staged, "/stages/1/layers", Json::array()), {"stages[1]", "layers"});
  ExpectRefused(changed(staged, "/stages/1/layers/0/attention/window", 0),
                {"stages[1].layers[0].attention", "window", "0"});
  ExpectRefused(changed(staged, "/input/cls_token", true), {"stages[0].layers[0].attention", "cls_token"});
  ExpectRefused(changed(changed(plain, "/positions", "learned"), "/max_position_embeddings", 15),
                {"max_position_embeddings", "15", "16 rows"});
  Json small = PlainConfig(8, {{"type", "axial"}, {"axis", "column"}, {"height", 3}, {"width", 4}});
  ExpectRefused(changed(small, "/positions", "learned"), {"8 by 8 has 16 patches", "takes 12"});
}

TEST(ImageStack, TensorsOfAnotherSizeAreRefusedByName) {
  Json config = PlainConfig(8);
  config["positions"] = "learned";
  std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  for (const char* name : {"embed.patches.weight", "embed.positions.weight"}) {
    std::map<std::string, Tensor> other = tensors;
    --other.at(name).shape[0];
    const auto refused = NewNativeModel(config, *Weights::Of(other), {});
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.status().message(), testing::HasSubstr(name));
  }
}

}  // namespace
}  // namespace heed
