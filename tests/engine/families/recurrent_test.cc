// What golden cases of recurrent families and their hybrids do not show: kinds of layers, versions of
// transformers, refusals.
#include <cmath>

#include "engine/base/status.h"
#include "engine/families/family.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Of a base model: without a head that wants a tensor.
Json Layers(const std::string& type, Json config) {
  config["model_type"] = type;
  const auto read = ReadCheckpoint(config, *Weights::Of({}));
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? read->config["layers"] : Json();
}

std::string Refusal(const std::string& type, Json config) {
  config["model_type"] = type;
  return std::string(ReadCheckpoint(config, *Weights::Of({})).status().message());
}

std::vector<std::string> Types(const Json& layers, const char* half) {
  std::vector<std::string> types;
  for (const Json& layer : layers)
    types.push_back(layer.contains(half) ? layer[half]["type"].get<std::string>() : "dense");
  return types;
}

TEST(RecurrentFamilies, TheVersionThatWroteAFileDecidesOverWhatAMixerNorms) {
  const auto groups = [](const std::string& type, const Json& config) {
    return Layers(type, config)[0]["attention"]["norm_groups"];
  };
  EXPECT_EQ(groups("mamba2", {{"n_groups", 4}, {"transformers_version", "4.57.1"}}), 1);
  EXPECT_EQ(groups("mamba2", {{"n_groups", 4}, {"transformers_version", "5.23.0"}}), 4);
  EXPECT_EQ(groups("bamba", {{"mamba_n_groups", 2}}), 1);
  EXPECT_EQ(groups("bamba", {{"mamba_n_groups", 2}, {"transformers_version", "5.0.0"}}), 2);
}

TEST(RecurrentFamilies, InfinityIsNoLimitOfTimeSteps) {
  const auto most = [](const Json& limit) {
    const Json config = {{"time_step_limit", Json::array({0.5, limit})}};
    return Layers("mamba2", config)[0]["attention"]["time_step_max"].get<double>();
  };
  EXPECT_EQ(most(2), 2);
  EXPECT_EQ(most(1.7976931348623157e308), 3e38);  // as ReadModelConfig makes it of Python's Infinity
  EXPECT_EQ(most({{"__float__", "Infinity"}}), 3e38);
  for (const Json& limit : {Json("long"), Json({{"__float__", "-Infinity"}}), Json()}) {
    EXPECT_THAT(Refusal("mamba2", {{"time_step_limit", Json::array({0, limit})}}),
                HasSubstr("is no list of two numbers"));
  }
}

TEST(RecurrentFamilies, KindsOfLayersComeFromTheirListsOrFromARule) {
  EXPECT_THAT(Types(Layers("qwen3_5_text", {{"num_hidden_layers", 5}}), "attention"),
              ElementsAre("gated_delta", "gated_delta", "gated_delta", "softmax", "gated_delta"));
  EXPECT_THAT(
      Types(Layers("qwen3_next", {{"num_hidden_layers", 4}, {"full_attention_interval", 2}}), "attention"),
      ElementsAre("gated_delta", "softmax", "gated_delta", "softmax"));
  EXPECT_THAT(Types(Layers("lfm2", {{"num_hidden_layers", 2}, {"layer_types", {"conv", "full_attention"}}}),
                    "attention"),
              ElementsAre("short_convolution", "softmax"));
  EXPECT_THAT(Types(Layers("lfm2", {{"num_hidden_layers", 2}, {"full_attn_idxs", {0}}}), "attention"),
              ElementsAre("softmax", "short_convolution"));
  EXPECT_THAT(Types(Layers("bamba", {{"num_hidden_layers", 2}, {"attn_layer_indices", {1}}}), "attention"),
              ElementsAre("mamba2", "softmax"));
  const Json jamba =
      Layers("jamba", {{"num_hidden_layers", 3}, {"attn_layer_period", 3}, {"attn_layer_offset", 2}});
  EXPECT_THAT(Types(jamba, "attention"), ElementsAre("mamba", "mamba", "softmax"));
  EXPECT_THAT(Types(jamba, "ffn"), ElementsAre("dense", "moe", "dense"));
}

TEST(RecurrentFamilies, BlockTypesAreRepeated) {
  EXPECT_THAT(Types(Layers("recurrent_gemma", {{"num_hidden_layers", 5}}), "attention"),
              ElementsAre("rg_lru", "rg_lru", "softmax", "rg_lru", "rg_lru"));
  EXPECT_THAT(Types(Layers("recurrent_gemma", {{"num_hidden_layers", 3}, {"block_types", {"attention"}}}),
                    "attention"),
              ElementsAre("softmax", "softmax", "softmax"));
  EXPECT_THAT(Refusal("recurrent_gemma", {{"block_types", {"linear"}}}),
              HasSubstr("block_types: \"linear\" is neither"));
}

// The stream is what norms give: a sublayer's alpha is in the weights of the norm before it.
TEST(RecurrentFamilies, MinimaxIsAPostNormModelBehindANormOfItsEmbedding) {
  const Json config = {{"model_type", "minimax"}, {"num_hidden_layers", 2}};
  const auto read = ReadCheckpoint(config, *Weights::Of({}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->config["norm"], "post");
  EXPECT_EQ(read->config["embedding_norm"], true);
  EXPECT_THAT(Types(read->config["layers"], "attention"), ElementsAre("softmax", "lightning"));
  EXPECT_EQ(read->tensors->Find("norm.weight"), nullptr);
  EXPECT_THAT(read->tensors->Find("embed.norm.weight")->names(),
              ElementsAre("layers.0.input_layernorm.weight"));
  EXPECT_THAT(read->tensors->Find("layers.0.norm2.weight")->names(),
              ElementsAre("layers.1.input_layernorm.weight"));
  EXPECT_THAT(read->tensors->Find("layers.1.norm2.weight")->names(), ElementsAre("norm.weight"));
}

TEST(RecurrentFamilies, AKindThatIsNotServedIsNamed) {
  const Json one = {{"num_hidden_layers", 1}, {"layer_types", {"sliding_attention"}}};
  for (const char* type : {"qwen3_next", "olmo_hybrid", "lfm2", "granitemoehybrid"})
    EXPECT_THAT(Refusal(type, one), HasSubstr("\"sliding_attention\" is")) << type;
  Json two = one;
  two["num_hidden_layers"] = 2;
  for (const char* type : {"qwen3_next", "olmo_hybrid", "lfm2", "lfm3", "granitemoehybrid"})
    EXPECT_THAT(Refusal(type, two), HasSubstr("is no list of 2 layers")) << type;
  EXPECT_THAT(Refusal("lfm3", {{"num_hidden_layers", 1}, {"layer_types", {"mamba"}}}),
              HasSubstr("layer_types[0]: \"mamba\" is not served; conv"));
  EXPECT_THAT(Refusal("qwen3_next", {{"linear_num_key_heads", 3}}),
              HasSubstr("linear_num_value_heads: 32 is no multiple of linear_num_key_heads: 3"));
}

TEST(RecurrentFamilies, Lfm3sAttentionsHaveWindowsAndRotationsOfTheirOwn) {
  const Json rope = {{"full_attention", {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.5}}},
                     {"sliding_attention", {{"rope_theta", 100}}}};
  const Json layers = Layers("lfm3", {{"num_hidden_layers", 3},
                                      {"layer_types", {"conv", "full_attention", "sliding_attention"}},
                                      {"sliding_window", 8},
                                      {"rope_parameters", rope}});
  EXPECT_THAT(Types(layers, "attention"), ElementsAre("short_convolution", "softmax", "softmax"));
  EXPECT_FALSE(layers[1]["attention"].contains("window"));
  EXPECT_EQ(layers[1]["attention"]["rope"]["scaling"]["share"], 0.5);
  EXPECT_EQ(layers[2]["attention"]["window"], 8);
  EXPECT_EQ(layers[2]["attention"]["rope"]["theta"], 100);
  EXPECT_EQ(layers[2]["attention"]["output_gate"], "head");
}

TEST(RecurrentFamilies, BlocksOfOneKindEachAreLayersOfTwo) {
  const Json layers = Layers("nemotron_h", {{"hybrid_override_pattern", "M-ME*M"}});
  EXPECT_THAT(Types(layers, "attention"), ElementsAre("mamba2", "mamba2", "softmax", "mamba2"));
  EXPECT_THAT(Types(layers, "ffn"), ElementsAre("dense", "moe", "none", "none"));
  EXPECT_THAT(Refusal("nemotron_h", {{"hybrid_override_pattern", "M-E"}}),
              HasSubstr("\"E\" at 2 is served behind linear_attention or full_attention"));
  EXPECT_THAT(Refusal("nemotron_h", {{"layers_block_type", {"conv"}}}), HasSubstr("\"conv\" is not served"));
  EXPECT_THAT(Refusal("nemotron_h", Json::object()), HasSubstr("layers_block_type: [] is no list"));
}

TEST(RecurrentFamilies, FalconH1sAttentionAndMixersStandBesideOneAnother) {
  const Json parts = Layers("falcon_h1", {{"num_hidden_layers", 1},
                                          {"key_multiplier", 0.5},
                                          {"mamba_d_ssm", nullptr},
                                          {"mamba_rms_norm", true}})[0]["attention"]["parts"];
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0]["type"], "softmax");
  EXPECT_EQ(parts[0]["scale"], 0.5 / std::sqrt(128.0));
  EXPECT_EQ(parts[1]["type"], "mamba2");
  EXPECT_EQ(parts[1]["head_dim"], 64);  // twice the width is 128 heads of them
  EXPECT_EQ(parts[1]["norm"], "norm_first");
  EXPECT_THAT(Refusal("falcon_h1", {{"mamba_d_ssm", 100}, {"mamba_d_head", 64}}),
              HasSubstr("mamba_d_ssm: 100 numbers are not mamba_n_heads: 128 of mamba_d_head: 64"));
  EXPECT_THAT(Refusal("falcon_h1", {{"ssm_multipliers", {1, 2}}}),
              HasSubstr("ssm_multipliers: [1,2] is no list of 5 numbers"));
  EXPECT_THAT(Refusal("falcon_h1", {{"mlp_multipliers", {1, "a"}}}), HasSubstr("\"a\" is no number"));
  EXPECT_THAT(Refusal("falcon_h1", {{"attention_bias", true}}), HasSubstr("attention_bias"));
}

TEST(RecurrentFamilies, KimisFirstFilesListTheirLayersFromOneOn) {
  const Json config = {
      {"num_hidden_layers", 3},
      {"linear_attn_config", {{"full_attn_layers", {2}}, {"num_heads", 4}, {"head_dim", 8}}}};
  const Json layers = Layers("kimi_linear", config);
  EXPECT_THAT(Types(layers, "attention"), ElementsAre("kimi_delta", "latent", "kimi_delta"));
  EXPECT_THAT(Types(layers, "ffn"), ElementsAre("dense", "moe", "moe"));
  EXPECT_EQ(layers[0]["attention"]["rank"], 8);
  EXPECT_FALSE(layers[1]["attention"].contains("rope"));
  EXPECT_THAT(
      Refusal("kimi_linear", {{"q_lora_rank", 64}, {"linear_attn_config", {{"full_attn_layers", {1}}}}}),
      HasSubstr("q_lora_rank: 64 is not served"));
}

TEST(RecurrentFamilies, LingsDeltaLayersAreBoundedAndItsLatentOnesGated) {
  const Json layers = Layers("bailing_hybrid", {{"num_hidden_layers", 4}});
  EXPECT_THAT(Types(layers, "attention"), ElementsAre("kimi_delta", "kimi_delta", "kimi_delta", "latent"));
  EXPECT_EQ(layers[0]["attention"]["lower_bound"], -5);
  EXPECT_FALSE(layers[0]["attention"].contains("rank"));
  EXPECT_EQ(layers[3]["attention"]["output_gate"], "head");
  EXPECT_EQ(layers[3]["attention"]["rope"]["layout"], "interleaved");
  EXPECT_EQ(layers[3]["ffn"]["strict_groups"], true);
  EXPECT_FALSE(
      Layers("bailing_hybrid", {{"num_hidden_layers", 1}, {"kda_safe_gate", false}})[0]["attention"].contains(
          "lower_bound"));
}

TEST(RecurrentFamilies, ABlockOfRwkvIsTwoLayers) {
  const Json layers = Layers("rwkv", {{"num_hidden_layers", 2}, {"hidden_size", 64}});
  EXPECT_THAT(Types(layers, "attention"), ElementsAre("rwkv", "rwkv_channel", "rwkv", "rwkv_channel"));
  EXPECT_THAT(Types(layers, "ffn"), ElementsAre("none", "none", "none", "none"));
  EXPECT_EQ(layers[0]["attention"]["inner_size"], 64);
  EXPECT_EQ(layers[1]["attention"]["inner_size"], 256);
}

TEST(RecurrentFamilies, AttentionIsTurnedOnlyWhereTheFileSaysSo) {
  const auto turned = [](const std::string& type, Json config) {
    config["num_hidden_layers"] = 1;
    return Layers(type, config)[0]["attention"].contains("rope");
  };
  const Json attention = {"full_attention"};
  EXPECT_FALSE(turned("olmo_hybrid", {{"layer_types", attention}, {"rope_parameters", nullptr}}));
  EXPECT_TRUE(
      turned("olmo_hybrid", {{"layer_types", attention}, {"rope_parameters", {{"rope_theta", 1e4}}}}));
  EXPECT_FALSE(turned("granitemoehybrid", {{"layer_types", attention}}));
  EXPECT_TRUE(turned("granitemoehybrid", {{"layer_types", attention}, {"position_embedding_type", "rope"}}));
}

}  // namespace
}  // namespace heed
