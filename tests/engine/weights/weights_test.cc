#include "engine/weights/weights.h"

#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/engine/weights/safetensors_writer.h"

namespace heed {
namespace {

using ::testing::HasSubstr;

TensorToWrite Vector(std::string name, std::vector<float> numbers) {
  return ToWrite<float>(std::move(name), DType::kF32, {std::ssize(numbers)}, numbers);
}

std::string Refusal(const TempFolder& folder) {
  auto weights = Weights::Load(folder.path());
  return weights.ok() ? "accepted" : std::string(weights.status().message());
}

TEST(Weights, LoadsOneFile) {
  TempFolder folder;
  folder.Write("model.safetensors",
               SafetensorsOf({Vector("a", {1, 2, 3}), ToWrite<int64_t>("ids", DType::kI64, {2, 1}, {5, 6})}));
  auto weights = Weights::Load(folder.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ((*weights)->parameters(), 5);
  EXPECT_EQ((*weights)->bytes(), 3 * 4 + 2 * 8);
  EXPECT_EQ(ToFloats((*weights)->Read("a").value()), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(static_cast<const int64_t*>((*weights)->Read("ids")->data)[1], 6);
  EXPECT_TRUE(absl::IsNotFound((*weights)->Read("b").status()));
}

TEST(Weights, AlignsWhatItsFilePutAtOddAddresses) {
  TempFolder folder;
  folder.Write("odd.safetensors", SafetensorsOf({{"1", DType::kU8, {3}, "abc"}, Vector("2", {1, 2, 3})}));
  auto weights = Weights::LoadFile(folder / "odd.safetensors");
  ASSERT_TRUE(weights.ok()) << weights.status();
  const Tensor tensor = (*weights)->Read("2").value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data) % 4, 0u);
  EXPECT_EQ(ToFloats(tensor), (std::vector<float>{1, 2, 3}));
}

TEST(Weights, WhatWasReadIsTheReadersAlone) {
  TempFolder folder;
  folder.Write("model.safetensors", SafetensorsOf({Vector("a", {1, 2, 3})}));
  auto weights = Weights::Load(folder.path()).value();
  const Tensor tensor = weights->Read("a").value();
  EXPECT_EQ(weights->tensors().at("a").data, nullptr) << "nobody else holds it";
  EXPECT_EQ(tensor.memory.use_count(), 1);
  weights.reset();
  std::filesystem::resize_file(folder / "model.safetensors", 0);
  EXPECT_EQ(ToFloats(tensor), (std::vector<float>{1, 2, 3}));
}

TEST(Weights, TakeInOthersOfOtherNames) {
  const std::vector<float> numbers = {1, 2, 3};
  const auto weights = Weights::Of({{"a", {DType::kF32, {1}, numbers.data()}}});
  const auto others = Weights::Of({{"b", {DType::kF32, {2}, numbers.data() + 1}}});
  ASSERT_TRUE(weights->Add(*others).ok());
  EXPECT_EQ(ToFloats(*weights->Read("b")), (std::vector<float>{2, 3}));
  EXPECT_THAT(weights->Add(*others).message(), testing::HasSubstr("tensor \"b\" is there already"));
}

TEST(Weights, AFileThatBecomesShorterBeforeItIsReadIsNamedWithTheTensor) {
  TempFolder folder;
  const std::string file = SafetensorsOf({Vector("a", {1, 2, 3}), Vector("b", {4})});
  folder.Write("model.safetensors", file);
  const auto weights = Weights::Load(folder.path()).value();
  std::filesystem::resize_file(folder / "model.safetensors", file.size() - 1);
  EXPECT_EQ(ToFloats(weights->Read("a").value()), (std::vector<float>{1, 2, 3}));
  const std::string changed = Cat("model.safetensors: changed while it was read, from ", file.size(), " to ",
                                  file.size() - 1, " bytes");
  EXPECT_EQ(weights->Read("b").status(), Invalid("tensor \"b\": ", changed));
  const WeightScope scope(*weights);
  EXPECT_EQ(scope.Floats("b", {1}).status(), Invalid("tensor \"b\": ", changed));
}

TEST(Weights, RefusesAFolderWithoutWeights) {
  TempFolder folder;
  EXPECT_EQ(Refusal(folder), "the folder has neither model.safetensors nor model.safetensors.index.json");
  EXPECT_TRUE(absl::IsNotFound(Weights::Load(folder.path()).status()));
  EXPECT_TRUE(absl::IsNotFound(Weights::LoadFile(folder / "absent").status()));
}

TEST(Weights, RefusesFilesThatAreNoneOrLeadElsewhere) {
  TempFolder folder, elsewhere;
  elsewhere.Write("model.safetensors", SafetensorsOf({Vector("a", {1})}));
  const std::string path = folder / "model.safetensors";

  std::filesystem::create_symlink(elsewhere / "model.safetensors", path);
  EXPECT_EQ(Refusal(folder), "model.safetensors: leads out of its folder");
  std::filesystem::remove(path);

  std::filesystem::create_directory(path);
  EXPECT_EQ(Refusal(folder), "model.safetensors: is not a regular file");
  std::filesystem::remove(path);

  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(Refusal(folder), "model.safetensors: is not a regular file");
  std::filesystem::remove(path);

  folder.Write("model.safetensors", "");
  EXPECT_EQ(Refusal(folder), "model.safetensors: 0 bytes are no safetensors file");
}

class ShardedWeights : public ::testing::Test {
 protected:
  ShardedWeights() {
    folder_.Write("one.safetensors", SafetensorsOf({Vector("a", {1}), Vector("b", {2})}));
    folder_.Write("two.safetensors", SafetensorsOf({Vector("c", {3})}));
  }
  std::string RefusalOf(std::string_view index) {
    folder_.Write("model.safetensors.index.json", index);
    return Refusal(folder_);
  }
  TempFolder folder_;
};

TEST_F(ShardedWeights, LoadsAllShards) {
  folder_.Write(
      "model.safetensors.index.json",
      R"({"metadata":{"total_size":12},"weight_map":{"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"}})");
  auto weights = Weights::Load(folder_.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ((*weights)->tensors().size(), 3u);
  EXPECT_EQ(ToFloats((*weights)->Read("c").value()), (std::vector<float>{3}));
}

TEST_F(ShardedWeights, RefusesWhatIndexAndShardsDisagreeAbout) {
  EXPECT_EQ(RefusalOf(R"({"weight_map":{"a":"one.safetensors","c":"two.safetensors"}})"),
            "one.safetensors: has tensor \"b\", which model.safetensors.index.json lists in nowhere");
  EXPECT_EQ(
      RefusalOf(R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"}})"),
      "one.safetensors: has tensor \"b\", which model.safetensors.index.json lists in two.safetensors");
  EXPECT_EQ(RefusalOf(R"({"weight_map":{"c":"two.safetensors","d":"two.safetensors"}})"),
            "two.safetensors: has no tensor \"d\", which model.safetensors.index.json lists");
  EXPECT_THAT(RefusalOf(R"({"weight_map":{"c":"three.safetensors"}})"),
              HasSubstr("three.safetensors: No such file"));
  folder_.Write("two.safetensors", SafetensorsOf({Vector("a", {3})}));
  EXPECT_EQ(
      RefusalOf(R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"}})"),
      "two.safetensors: has tensor \"a\", which model.safetensors.index.json lists in one.safetensors");
}

TEST_F(ShardedWeights, RefusesShardNamesThatAreNoPlainNames) {
  for (const char* name : {"\"\"", "\"../one.safetensors\"", "\"/etc/passwd\"", "\"a/b\"", "\".\"", "\"..\"",
                           "\".hidden\"", "7", "\"a\\u0000b\"", "\"a\\\\b\""}) {
    EXPECT_THAT(RefusalOf(Cat(R"({"weight_map":{"a":)", name, "}}")), HasSubstr("is not a file name"))
        << name;
  }
}

TEST_F(ShardedWeights, RefusesAnIndexOfAnotherForm) {
  const std::string what = "model.safetensors.index.json: ";
  EXPECT_THAT(RefusalOf("{"), HasSubstr(what + "not JSON"));
  EXPECT_EQ(RefusalOf("[]"), what + "[] is not an object");
  EXPECT_EQ(RefusalOf("{}"), what + "weight_map is not an object of tensor and file names");
  EXPECT_EQ(RefusalOf(R"({"weight_map":{}})"), what + "weight_map is not an object of tensor and file names");
  EXPECT_EQ(RefusalOf(R"({"weight_map":{"a":"x","a":"y"}})"), what + "key \"a\" appears twice");
  EXPECT_EQ(RefusalOf(R"({"weight_map":{"a":"x"},"more":1})"), what + "unknown key \"more\"");
}

class Scope : public ::testing::Test {
 protected:
  std::vector<float> numbers_ = {1, 2, 3, 4, 5, 6};
  int64_t id_ = 7;
  std::unique_ptr<Weights> weights_ =
      Weights::Of({{"layers.0.q.weight", {DType::kF32, {2, 3}, numbers_.data()}},
                   {"layers.0.q.bias", {DType::kF32, {2}, numbers_.data()}},
                   {"ids", {DType::kI64, {1}, &id_}}});
  WeightScope scope_{*weights_};
};

TEST_F(Scope, FindsTensorsBelowAName) {
  const WeightScope q = scope_ / "layers.0" / "q";
  EXPECT_EQ(q.Path("weight"), "layers.0.q.weight");
  EXPECT_TRUE(q.Has("weight"));
  EXPECT_FALSE(q.Has("norm"));
  EXPECT_EQ(q.Get("weight", {2, 3})->data, numbers_.data());
  EXPECT_EQ(q.Floats("bias", {2}).value(), (std::vector<float>{1, 2}));
  EXPECT_EQ(q.Get("weight", {-1, 3})->dim(0), 2);
  EXPECT_EQ(q.Optional("norm", {2})->data, nullptr);
  EXPECT_EQ(q.Optional("bias", {2})->data, numbers_.data());
}

TEST_F(Scope, NamesWhatIsMissingOrOfAnotherShapeOrType) {
  const WeightScope q = scope_ / "layers.0" / "q";
  EXPECT_EQ(q.Get("norm", {-1, 5}).status().message(),
            "tensor \"layers.0.q.norm\" of shape [any, 5] is missing");
  EXPECT_TRUE(absl::IsNotFound(q.Get("norm", {2}).status()));
  EXPECT_EQ(q.Get("weight", {3, 2}).status().message(),
            "tensor \"layers.0.q.weight\" has shape [2, 3], not [3, 2]");
  EXPECT_EQ(q.Optional("weight", {-1}).status().message(),
            "tensor \"layers.0.q.weight\" has shape [2, 3], not [any]");
  EXPECT_EQ(scope_.Get("ids", {1}).status().message(), "tensor \"ids\" is I64, not of a float type");
}

TEST_F(Scope, ReadsIntegersWithinTheirLimits) {
  EXPECT_EQ(scope_.Integers("ids", {1}, 7, 7).value(), (std::vector<int64_t>{7}));
  EXPECT_EQ(scope_.Integers("ids", {1}, 0, 6).status().message(), "tensor \"ids\" holds 7 at [0], above 6");
  EXPECT_EQ(scope_.Integers("ids", {-1}, 8, 9).status().message(), "tensor \"ids\" holds 7 at [0], below 8");
  EXPECT_EQ(scope_.Integers("ids", {2}, 0, 9).status().message(), "tensor \"ids\" has shape [1], not [2]");
  EXPECT_EQ((scope_ / "layers.0" / "q").Integers("bias", {2}, 0, 9).status().message(),
            "tensor \"layers.0.q.bias\" is F32, not I64");
  const std::vector<int64_t> table = {1, 2, 3, 4, 5, 66};
  const auto weights = Weights::Of({{"table", {DType::kI64, {2, 3}, table.data()}}});
  EXPECT_EQ(WeightScope(*weights).Integers("table", {2, 3}, 0, 9).status().message(),
            "tensor \"table\" holds 66 at [1, 2], above 9");
}

TEST(Weights, AreMadeOnceWhenTheyAreFirstAskedFor) {
  std::vector<std::string> made;
  const std::vector<int64_t> numbers = {3, 4};
  const auto weights = Weights::MadeBy({.has = [](const std::string& name) { return name == "a.bias"; },
                                        .make =
                                            [&](const WantedTensor& wanted) {
                                              made.push_back(wanted.name);
                                              EXPECT_EQ(wanted.shape, (std::vector<int64_t>{2}));
                                              return Tensor{wanted.integers ? DType::kI64 : DType::kF32,
                                                            wanted.shape, numbers.data()};
                                            }});
  const WeightScope scope(*weights);
  EXPECT_FALSE(scope.Has("a.weight"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ((scope / "a").Get("weight", {2})->data, numbers.data());
    EXPECT_EQ((scope / "a").Optional("bias", {2})->data, numbers.data());
    EXPECT_EQ((scope / "a").Optional("norm", {2})->data, nullptr);
    EXPECT_EQ(scope.Integers("ids", {2}, 3, 9).value(), numbers);
  }
  EXPECT_THAT(made, ::testing::ElementsAre("a.weight", "a.bias", "ids"));
  EXPECT_EQ(weights->tensors().size(), 3u);
  EXPECT_TRUE(scope.AllUsed().ok());
}

TEST_F(Scope, NamesTheFirstTensorNobodyAskedFor) {
  EXPECT_EQ(scope_.AllUsed().message(), "tensor \"ids\" belongs to no part of the model");
  EXPECT_FALSE(scope_.Get("ids", {1}).ok());
  const WeightScope q = scope_ / "layers.0" / "q";
  EXPECT_TRUE(q.Get("weight", {2, 3}).ok());
  EXPECT_EQ(scope_.AllUsed().message(), "tensor \"layers.0.q.bias\" belongs to no part of the model");
  EXPECT_TRUE(q.Optional("bias", {2}).ok());
  EXPECT_TRUE(scope_.AllUsed().ok());
}

}  // namespace
}  // namespace heed
