#include "engine/families/legacy_names.h"

#include "engine/families/family.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/engine/weights/safetensors_writer.h"

namespace heed {
namespace {

using testing::HasSubstr;

TensorToWrite Two(std::string name, float first, float second) {
  return ToWrite<float>(std::move(name), DType::kF32, {2}, {first, second});
}

std::unique_ptr<Weights> Stored(const TempFolder& folder, const std::vector<TensorToWrite>& tensors) {
  folder.Write("model.safetensors", SafetensorsOf(tensors));
  auto weights = Weights::Load(folder.path()).value();
  TakeTodaysNames(*weights);
  return weights;
}

TEST(LegacyNames, GammaAndBetaOfALayerNormAreItsWeightAndBias) {
  TempFolder folder;
  const auto weights = Stored(
      folder, {Two("bert.embeddings.LayerNorm.gamma", 1, 2), Two("bert.embeddings.LayerNorm.beta", 3, 4)});
  const auto model = ReadCheckpoint({{"model_type", "bert"}}, *weights);
  ASSERT_TRUE(model.ok()) << model.status();
  const WeightScope scope(*weights, &*model->tensors);
  EXPECT_EQ(scope.Floats("embed.norm.weight", {2}).value(), (std::vector<float>{1, 2}));
  EXPECT_EQ(scope.Floats("embed.norm.bias", {2}).value(), (std::vector<float>{3, 4}));
  EXPECT_TRUE(scope.AllUsed().ok()) << scope.AllUsed();
}

TEST(LegacyNames, OtherGammasKeepTheirNames) {
  TempFolder folder;
  const auto weights = Stored(folder, {Two("layer.gamma", 1, 2)});
  EXPECT_TRUE(weights->Has("layer.gamma"));
}

TEST(LegacyNames, ATensorThatHasBothNamesIsRefused) {
  TempFolder folder;
  const auto weights =
      Stored(folder, {Two("embeddings.LayerNorm.gamma", 1, 2), Two("embeddings.LayerNorm.weight", 5, 6)});
  const auto model = ReadCheckpoint({{"model_type", "bert"}}, *weights);
  ASSERT_TRUE(model.ok()) << model.status();
  const WeightScope scope(*weights, &*model->tensors);
  EXPECT_EQ(scope.Floats("embed.norm.weight", {2}).value(), (std::vector<float>{5, 6}));
  EXPECT_THAT(scope.AllUsed().message(), HasSubstr("\"embeddings.LayerNorm.gamma\""));
}

}  // namespace
}  // namespace heed
