#include "engine/families/family.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::HasSubstr;

std::string Refusal(const Json& config) {
  const auto read = ReadCheckpoint(config, *Weights::Of({}));
  return read.ok() ? "" : std::string(read.status().message());
}

TEST(Families, ATypeThatIsNotServedIsRefusedWithThoseThatAre) {
  EXPECT_THAT(Refusal({{"model_type", "whisper"}}),
              HasSubstr("model_type \"whisper\" is not served; heed, bert"));
  EXPECT_THAT(Refusal({{"model_type", 7}}), HasSubstr("model_type is missing"));
  EXPECT_THAT(Refusal(Json::object()), HasSubstr("model_type is missing"));
}

TEST(Families, ATaskThatIsNotServedIsRefusedWithThoseThatAre) {
  EXPECT_THAT(Refusal({{"model_type", "bert"}, {"architectures", {"BertForMultipleChoice"}}}),
              HasSubstr("architectures: \"BertForMultipleChoice\": of this family Model, ForMaskedLM"));
}

TEST(Families, AnOptionThatIsNotServedIsRefusedByName) {
  EXPECT_THAT(Refusal({{"model_type", "bert"}, {"position_embedding_type", "relative_key"}}),
              HasSubstr("position_embedding_type: \"relative_key\" is not served; \"absolute\" is"));
  EXPECT_THAT(Refusal({{"model_type", "bert"}, {"hidden_act", "mish"}}),
              HasSubstr("hidden_act: \"mish\" is none of gelu"));
  EXPECT_THAT(Refusal({{"model_type", "bert"}, {"hidden_size", -3}}), HasSubstr("hidden_size"));
}

TEST(Families, KeysThatNobodyReadsArePassedOver) {
  EXPECT_EQ(Refusal({{"model_type", "bert"}, {"gradient_checkpointing", false}}), "");
}

TEST(Families, MissingKeysHaveTheDefaultsOfTransformers) {
  const auto read = ReadCheckpoint({{"model_type", "bert"}}, *Weights::Of({}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->config["hidden_size"], 768);
  EXPECT_EQ(read->config["layers"].size(), 12);
  EXPECT_EQ(read->config["vocab_size"], 30522);
}

TEST(Families, IdsThatAreNoTokensAreLeftOut) {
  const auto read = ReadCheckpoint(
      {{"model_type", "bert"}, {"vocab_size", 10}, {"eos_token_id", {3, 50256}}, {"bos_token_id", 11}},
      *Weights::Of({}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->config["eos_token_id"], Json({3}));
  EXPECT_FALSE(read->config.contains("bos_token_id"));
}

TEST(Families, ABaseModelsTensorsHaveNoPrefix) {
  std::vector<float> numbers(4);
  const Tensor tensor{DType::kF32, {2, 2}, numbers.data()};
  const auto with = Weights::Of({{"bert.embeddings.word_embeddings.weight", tensor}}),
             without = Weights::Of({{"embeddings.word_embeddings.weight", tensor}});
  const Json config = {{"model_type", "bert"}};
  const auto name = [&](const Weights& weights) {
    return ReadCheckpoint(config, weights)->tensors->Find("embed.tokens.weight")->names()[0];
  };
  EXPECT_EQ(name(*with), "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(name(*without), "embeddings.word_embeddings.weight");
}

}  // namespace
}  // namespace heed
