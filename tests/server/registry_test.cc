// Models that become ready, or do not.
#include "server/registry.h"

#include <filesystem>
#include <new>
#include <stdexcept>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class RegistryTest : public testing::Test {
 protected:
  Registry Of(const std::string& folder = "") {
    return Registry({{.name = "m", .folder = folder}}, &turns_, &clock_);
  }
  static absl::StatusOr<LoadedModel> LoadFake(const ModelSpec&) {
    LoadedModel loaded;
    loaded.model = std::make_unique<FakeModel>();
    return loaded;
  }

  FakeClock clock_;
  Threads threads_{1};
  Turns turns_{&threads_, &clock_};
};

TEST_F(RegistryTest, AModelThatIsLoadedIsFoundAndSaysSinceWhen) {
  Registry registry = Of();
  EXPECT_EQ(registry.Find("m", "").status().code(), StatusCode::kUnavailable);
  clock_.Move(seconds(3));
  ASSERT_TRUE(registry.Load(0, LoadFake).ok());
  EXPECT_TRUE(registry.Find("m", "").ok());
  EXPECT_EQ(registry.List()[0].state, ModelState::kReady);
  EXPECT_EQ(registry.List()[0].since, Time(seconds(3)));
}

TEST_F(RegistryTest, WhyAModelFailedIsKeptWithIt) {
  Registry registry = Of();
  clock_.Move(seconds(2));
  const absl::Status status = registry.Load(0, [](const ModelSpec&) -> absl::StatusOr<LoadedModel> {
    return absl::InvalidArgumentError("config.json: hidden_size is -1");
  });
  EXPECT_EQ(registry.List()[0].state, ModelState::kFailed);
  EXPECT_EQ(registry.List()[0].error, status);
  EXPECT_EQ(registry.List()[0].since, Time(seconds(2)));
  EXPECT_THAT(std::string(status.message()), HasSubstr("hidden_size is -1"));
}

TEST_F(RegistryTest, WhatALoaderThrowsIsItsModelsError) {
  const auto thrown = [&](auto exception) {
    Registry registry = Of();
    const absl::Status status =
        registry.Load(0, [&](const ModelSpec&) -> absl::StatusOr<LoadedModel> { throw exception; });
    EXPECT_EQ(registry.List()[0].state, ModelState::kFailed);
    EXPECT_EQ(registry.List()[0].error, status);
    EXPECT_EQ(registry.Find("m", "").status().code(), StatusCode::kFailedPrecondition);
    return status;
  };
  EXPECT_EQ(thrown(std::bad_alloc()).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(thrown(std::runtime_error("no kernel")).code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(thrown(std::runtime_error("no kernel")).message()), HasSubstr("no kernel"));
  EXPECT_EQ(thrown(7).code(), StatusCode::kInternal);
}

TEST_F(RegistryTest, AFoldersModelNamesTheFilesOfItsWeightsAsSha256sumDoes) {
  Registry registry = Of(HEED_SOURCE_DIR "/tests/golden/native/linear-decoder");
  ASSERT_TRUE(registry.Load(0, LoadFromFolder).ok());
  const auto& files = (*registry.Find("m", ""))->info().files;
  ASSERT_EQ(files.size(), 1);
  EXPECT_EQ(files[0].name, "model.safetensors");
  EXPECT_EQ(files[0].bytes, 89888);
  EXPECT_EQ(files[0].sha256, "23c4790e9f933bdcbaf35aed082d80e700d6b8f3dc0fa5910d043d99cbbc4b0a");
}

// As model cards on the hub begin, and in 2,000 bytes no half character.
TEST_F(RegistryTest, AFoldersDescriptionIsItsReadmesFirstParagraph) {
  TempFolder folder;
  std::filesystem::copy(HEED_SOURCE_DIR "/tests/golden/native/linear-decoder", folder.path());
  const auto told = [&](const std::string& readme) {
    folder.Write("README.md", readme);
    return LoadFromFolder({.name = "m", .folder = folder.path()})->description;
  };
  EXPECT_EQ(told("---\nlanguage: en\n---\n\n# A model\n\nIt says\nthis.\n\nAnd that.\n"), "It says this.");
  EXPECT_EQ(told("It says this.\n---\nAnd that.\n"), "It says this. --- And that.");
  EXPECT_EQ(told("---\nlanguage: en\n"), "");
  std::string es = "x";
  for (int i = 0; i < 2000; ++i) es += "é";
  EXPECT_EQ(told(es), es.substr(0, 1999));
}

// A terabyte that takes no disk: reading all of it would take a quarter of an hour.
TEST_F(RegistryTest, AWrongConfigIsToldWithoutReadingAllWeights) {
  TempFolder folder;
  folder.Write("config.json", R"({"model_type": "heed", "architecture": "castle"})");
  constexpr int64_t kBytes = int64_t{1} << 40;
  const std::string header =
      Cat(R"({"a": {"dtype": "F32", "shape": [)", kBytes / 4, R"(], "data_offsets": [0, )", kBytes, "]}}");
  const uint64_t size = header.size();
  folder.Write("model.safetensors", std::string(reinterpret_cast<const char*>(&size), 8) + header);
  std::filesystem::resize_file(folder.path() + "/model.safetensors", 8 + size + kBytes);
  EXPECT_THAT(std::string(Of(folder.path()).Load(0, LoadFromFolder).message()), HasSubstr("castle"));
}

}  // namespace
}  // namespace heed
