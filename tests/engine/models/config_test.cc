// What a configuration may say, and what is answered when it says something else.

#include "engine/models/config.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using testing::HasSubstr;

std::string Refusal(const Json& config) {
  auto parsed = ParseModelConfig(config);
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

Json With(std::string key, Json value) {
  Json config = SmallConfig("decoder", "lm");
  config[key] = std::move(value);
  return config;
}

Json Reversible(const std::string& architecture, const std::string& norm) {
  Json config = SmallConfig(architecture, "lm");
  config["norm"] = norm;
  config["reversible"] = true;
  return config;
}

TEST(ModelConfig, ASmallOneIsAcceptedWithItsDefaults) {
  auto config = ParseModelConfig(SmallConfig("encoder", "classification"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->norm.placement, NormPlacement::kPre);
  EXPECT_EQ(config->pooling, Pooling::kFirst);
  EXPECT_EQ(config->labels,
            (std::vector<std::string>{"LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3", "LABEL_4"}));
  EXPECT_FALSE(config->multi_label);
}

TEST(ModelConfig, EveryRefusalNamesTheFieldTheValueAndTheLimit) {
  struct Case {
    Json config;
    std::vector<std::string> says;
  };
  const Case cases[] = {
      {With("hidden_size", 0), {"hidden_size", "0", "1"}},
      {With("hidden_size", "wide"), {"hidden_size"}},
      {With("vocab_size", -3), {"vocab_size", "-3"}},
      {With("num_attention_heads", 33), {"num_attention_heads", "33", "32"}},
      {With("hidden_act", "swish"), {"hidden_act", "swish", "silu"}},
      {With("norm", "middle"), {"norm", "middle", "res_post"}},
      {Reversible("encoder", "post"), {"reversible", "pre"}},
      {Reversible("encoder-decoder", "pre"), {"reversible", "pre"}},
      {With("layer_norm_eps", 7), {"layer_norm_eps", "7"}},
      {With("positions", "rotary"), {"positions", "rotary", "sinusoidal"}},
      {With("positions", "learned"), {"max_position_embeddings"}},
      {With("head", "tail"), {"head", "tail", "classification"}},
      {With("head", "classification"), {"num_labels"}},
      {With("layers", Json::array()), {"layers", "0"}},
      {With("layers", 3), {"layers"}},
      {With("eos_token_id", 50), {"eos_token_id", "50", "49"}},
      {With("eos_token_id", {1, "x"}), {"eos_token_id", "x"}},
      {With("architecture", "encoder-decoder"), {"decoder_layers"}},
      {With("decoder_layers", Json::array()), {"decoder_layers"}},
      {With("architecture", nullptr), {"architecture"}},
      {With("tokenizer", "words"), {"tokenizer", "words", "bytes"}},
      {With("unknown_key", 1), {"unknown_key"}},
      {With("layers", {{{"attention", {{"type", "full"}}}, {"ffn", "dense"}}}), {"layers[0]", "ffn"}},
      {With("layers", {{{"atention", {{"type", "full"}}}}}), {"layers[0]", "attention"}},
  };
  for (const Case& c : cases) {
    for (const std::string& word : c.says) EXPECT_THAT(Refusal(c.config), HasSubstr(word)) << Shown(c.config);
  }
}

TEST(ModelConfig, AnEncoderDecodersLayersHaveACrossAttentionEach) {
  Json config = SmallConfig("encoder-decoder", "lm");
  ASSERT_TRUE(ParseModelConfig(config).ok());
  EXPECT_EQ(ParseModelConfig(config)->decoder_layers.size(), 2u);
  EXPECT_EQ(ParseModelConfig(config)->decoder_start_token_id, 1);
  Json without = config;
  without["decoder_layers"][1].erase("cross_attention");
  for (const char* part : {"decoder_layers[1]", "cross_attention"})
    EXPECT_THAT(Refusal(without), HasSubstr(part));
  Json crossed = config;
  crossed["layers"][0]["cross_attention"] = crossed["layers"][0]["attention"];
  for (const char* part : {"layers[0]", "cross_attention"}) EXPECT_THAT(Refusal(crossed), HasSubstr(part));
  Json start = config;
  start["decoder_start_token_id"] = 50;
  for (const char* part : {"decoder_start_token_id", "50", "49"})
    EXPECT_THAT(Refusal(start), HasSubstr(part));
  EXPECT_THAT(Refusal(SmallConfig("encoder-decoder", "classification")), HasSubstr("head"));
}

TEST(ModelConfig, EndTokensAreAnIdOrAList) {
  EXPECT_EQ(ParseModelConfig(With("eos_token_id", 7))->eos_token_ids, std::vector<int32_t>{7});
  EXPECT_EQ(ParseModelConfig(With("eos_token_id", {7, 9}))->eos_token_ids, (std::vector<int32_t>{7, 9}));
  EXPECT_TRUE(ParseModelConfig(SmallConfig("decoder", "lm"))->eos_token_ids.empty());
}

}  // namespace
}  // namespace heed
