// What golden cases of decoders do not show: refusals, keys that are absent or null, versions of
// transformers.
#include "engine/families/decoder.h"

#include <cmath>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::HasSubstr;

// Of a base model: without a head that wants a tensor.
NativeModel Read(const std::string& type, Json config = Json::object(),
                 const Weights& weights = *Weights::Of({})) {
  config["model_type"] = type;
  auto read = ReadCheckpoint(config, weights);
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? *std::move(read) : NativeModel{};
}

std::string Refusal(const std::string& type, Json config) {
  config["model_type"] = type;
  return std::string(ReadCheckpoint(config, *Weights::Of({})).status().message());
}

Json Attention(const NativeModel& model, int layer = 0) { return model.config["layers"][layer]["attention"]; }

TEST(Decoders, OptionsThatAreNotServedAreRefusedByName) {
  EXPECT_THAT(Refusal("cohere2_moe", {{"num_shared_experts", 4}}),
              HasSubstr("num_shared_experts: 4 is not served; 0 is"));
  EXPECT_THAT(Refusal("gemma4_text", {{"vocab_size", 300000}}),
              HasSubstr("vocab_size_per_layer_input: 262144 is below vocab_size 300000"));
  EXPECT_THAT(Refusal("gemma4_text", {{"num_hidden_layers", 7}, {"num_kv_shared_layers", 2}}),
              HasSubstr("num_kv_shared_layers: 2: no layer of the kind of layer 5 is before them"));
  EXPECT_THAT(Refusal("glm_moe_dsa", {{"indexer_types", {"full", "shared"}}}),
              HasSubstr("indexer_types: \"shared\" is not served"));
  EXPECT_THAT(Refusal("laguna", {{"gating", false}}), HasSubstr("gating: false is not served; true is"));
  EXPECT_THAT(Refusal("gpt_oss", {{"swiglu_limit", 5}}), HasSubstr("swiglu_limit: 5 is not served; 7.0 is"));
  EXPECT_THAT(Refusal("gpt2", {{"add_cross_attention", true}}), HasSubstr("add_cross_attention: true"));
  EXPECT_THAT(Refusal("llama", {{"hidden_act", "mish"}}), HasSubstr("hidden_act: \"mish\""));
  EXPECT_THAT(Refusal("gemma2", {{"use_bidirectional_attention", true}}),
              HasSubstr("use_bidirectional_attention"));
  EXPECT_THAT(Refusal("qwen3", {{"num_hidden_layers", 1}, {"layer_types", {"linear_attention"}}}),
              HasSubstr("layer_types[0]: \"linear_attention\" is not served"));
  EXPECT_THAT(Refusal("llama", {{"architectures", {"LlamaForQuestionAnswering"}}}),
              HasSubstr("\"LlamaForQuestionAnswering\": of this family Model, ForCausalLM"));
}

TEST(Decoders, ListsThatDoNotFitTheLayersAreRefused) {
  EXPECT_THAT(Refusal("qwen2", {{"num_hidden_layers", 2}, {"layer_types", {"full_attention"}}}),
              HasSubstr("layer_types: 1 of 2 layers"));
  EXPECT_THAT(Refusal("smollm3", {{"num_hidden_layers", 2}, {"no_rope_layers", {1, 1, 0}}}),
              HasSubstr("no_rope_layers: 3 of 2 layers"));
  EXPECT_THAT(Refusal("gpt_neo", {{"num_layers", 2}}), HasSubstr("names 24 of 2 layers"));
  EXPECT_THAT(Refusal("gpt_neo", {{"attention_types", Json::parse(R"([[["global"], 1000000]])")}}),
              HasSubstr("names 0 of 24 layers"));
  EXPECT_THAT(Refusal("gpt_neo", {{"num_layers", 1}, {"attention_types", Json::parse(R"([[["near"], 1]])")}}),
              HasSubstr("\"near\" is neither global nor local"));
}

TEST(Decoders, LayersOfGraniteMayTurnByThetasOfTheirOwn) {
  const NativeModel model = Read("granite_swa", {{"num_hidden_layers", 2}, {"layer_rope_theta", {0, 500}}});
  EXPECT_FALSE(Attention(model, 0).contains("rope"));
  EXPECT_EQ(Attention(model, 1)["rope"]["theta"], 500);
  EXPECT_THAT(Refusal("granite_swa", {{"num_hidden_layers", 2}, {"layer_rope_theta", {1000}}}),
              HasSubstr("layer_rope_theta: no list of 2 numbers"));
  EXPECT_THAT(Refusal("granite_swa", {{"num_hidden_layers", 1}, {"layer_rope_theta", {-1}}}),
              HasSubstr("layer_rope_theta[0]: -1 is neither 0 nor 1"));
}

// What they are of longer texts depends on how long those become.
TEST(Decoders, LongropeAndDynamicAreServedWithinTheOriginalLength) {
  const Json factors = {1.0, 1.5, 2.0, 4.0};
  const Json longrope = {{"type", "su"}, {"short_factor", factors}, {"long_factor", factors}};
  const NativeModel phi = Read("phi3", {{"hidden_size", 64},
                                        {"num_attention_heads", 8},
                                        {"max_position_embeddings", 16384},
                                        {"original_max_position_embeddings", 4096},
                                        {"rope_scaling", longrope}});
  EXPECT_EQ(phi.config["max_seq_length"], 4096);
  const Json scaling = Attention(phi)["rope"]["scaling"];
  EXPECT_EQ(scaling["factors"], factors);
  EXPECT_NEAR(scaling["attention_factor"].get<double>(), std::sqrt(1 + std::log(4) / std::log(4096)), 1e-12);
  const NativeModel llama = Read(
      "llama", {{"max_position_embeddings", 2048}, {"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}});
  EXPECT_EQ(llama.config["max_seq_length"], 2048);
  EXPECT_FALSE(Attention(llama)["rope"].contains("scaling"));
  EXPECT_THAT(Refusal("hunyuan_v1_dense", {{"rope_scaling", {{"type", "dynamic"}, {"alpha", 1000}}}}),
              HasSubstr("alpha"));
}

TEST(Decoders, ATensorThatIsMissingIsNamedAsTheFileWouldHaveIt) {
  const auto weights = Weights::Of({});
  const NativeModel model = Read("gpt2");
  EXPECT_THAT(
      WeightScope(*weights, &*model.tensors).Get("layers.3.attention.q.weight", {-1, -1}).status().message(),
      HasSubstr("\"h.3.attn.c_attn.weight\""));
}

TEST(Decoders, AHeadThatIsNotTiedMustBeThere) {
  EXPECT_THAT(Refusal("llama", {{"architectures", {"LlamaForCausalLM"}}}),
              HasSubstr("tensor \"lm_head.weight\" is missing, and tie_word_embeddings is false"));
  EXPECT_EQ(Refusal("llama", {{"architectures", {"LlamaForCausalLM"}}, {"tie_word_embeddings", true}}), "");
  EXPECT_EQ(Refusal("gpt2", {{"architectures", {"GPT2LMHeadModel"}}}), "");
}

TEST(Decoders, SinceTransformers5ATiedHeadIsWhatTheFileHas) {
  std::vector<float> numbers(4);
  const auto weights = Weights::Of({{"lm_head.weight", {DType::kF32, {2, 2}, numbers.data()}}});
  const auto head = [&](const char* version) {
    const NativeModel model = Read("qwen2",
                                   {{"architectures", {"Qwen2ForCausalLM"}},
                                    {"tie_word_embeddings", true},
                                    {"transformers_version", version}},
                                   *weights);
    EXPECT_NE(model.tensors->Ignores("lm_head.weight"), model.tensors->Find("lm_head.weight") != nullptr);
    return model.tensors->Find("lm_head.weight") != nullptr;
  };
  EXPECT_FALSE(head("4.57.1"));
  EXPECT_TRUE(head("5.23.0"));
}

TEST(Decoders, NullIsNotTheDefault) {
  EXPECT_EQ(Attention(Read("mistral"))["window"], 4096);
  EXPECT_FALSE(Attention(Read("mistral", {{"sliding_window", nullptr}})).contains("window"));
  EXPECT_EQ(Attention(Read("mistral"))["num_key_value_heads"], 8);
  EXPECT_EQ(Attention(Read("mistral", {{"num_key_value_heads", nullptr}}))["num_key_value_heads"], 32);
  EXPECT_EQ(Attention(Read("gemma2"))["soft_cap"], 50);
  EXPECT_FALSE(Attention(Read("gemma2", {{"attn_logit_softcapping", nullptr}})).contains("soft_cap"));
}

TEST(Decoders, AWindowThatIsNotUsedIsNone) {
  const Json first = {{"sliding_window", 8}, {"max_window_layers", 0}};
  EXPECT_FALSE(Attention(Read("qwen2", first)).contains("window"));
  Json used = first;
  used["use_sliding_window"] = true;
  EXPECT_EQ(Attention(Read("qwen2", used))["window"], 8);
}

TEST(Decoders, AClassIsOfTheLastTokenThatIsNoPad) {
  const auto pooling = [](const std::string& type, const Json& pad) {
    Json config = {
        {"architectures", {"SomeForSequenceClassification"}}, {"vocab_size", 100}, {"num_labels", 3}};
    if (!pad.is_discarded()) config["pad_token_id"] = pad;
    return Read(type, config).config;
  };
  const Json absent(Json::value_t::discarded);
  EXPECT_EQ(pooling("llama", 7)["pooling"], "last_token_not");
  EXPECT_EQ(pooling("llama", 7)["pooling_token"], 7);
  EXPECT_EQ(pooling("llama", absent)["pooling"], "last");
  EXPECT_EQ(pooling("gemma", absent)["pooling_token"], 0);
  EXPECT_EQ(pooling("gemma", nullptr)["pooling"], "last");
  EXPECT_EQ(pooling("llama", 100)["pooling"], "last");  // no token: none is a pad
  EXPECT_EQ(pooling("llama", 7)["num_labels"], 3);
}

TEST(Decoders, SizesHaveTwoNames) {
  EXPECT_EQ(Read("bloom", {{"n_embed", 32}, {"hidden_size", 64}}).config["hidden_size"], 32);
  EXPECT_EQ(Read("bloom", {{"hidden_size", 48}}).config["hidden_size"], 48);
  EXPECT_EQ(Read("gpt2", {{"num_hidden_layers", 3}}).config["layers"].size(), 3);
}

TEST(Decoders, GemmasOfTheFirstDaysSayGeluAndMeanItsTanhForm) {
  const auto act = [](const Json& config) { return Read("gemma", config).config["hidden_act"]; };
  EXPECT_EQ(act({{"hidden_act", "gelu"}}), "geglu_new");
  EXPECT_EQ(act({{"hidden_act", "gelu"}, {"hidden_activation", "gelu"}}), "geglu");
  EXPECT_EQ(act({{"hidden_act", "gelu"}, {"hidden_activation", "gelu"}, {"transformers_version", "5.1.0"}}),
            "geglu_new");
}

TEST(Decoders, ApertusTurnsAsItsClassDoesWhereNothingIsSaid) {
  const Json absent = Attention(Read("apertus"))["rope"]["scaling"];
  EXPECT_EQ(absent["type"], "llama3");
  EXPECT_EQ(absent["original_max_position_embeddings"], 8192);
  EXPECT_FALSE(Attention(Read("apertus", {{"rope_scaling", nullptr}}))["rope"].contains("scaling"));
  EXPECT_THAT(Refusal("apertus", {{"hidden_act", "silu"}}), HasSubstr("hidden_act: \"silu\" is not served"));
}

Json SmallMixture(const char* types) {
  Json config = {{"head_dim", 8}, {"layer_types", {types}}};
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "sliding_window", "num_experts", "num_local_experts", "num_experts_per_tok",
        "moe_intermediate_size", "shared_expert_intermediate_size"})
    config[key] = 1;
  return config;
}

TEST(Decoders, LayersOfFlintAreTurnedWithinWindowsAlone) {
  EXPECT_TRUE(Attention(Read("flint", SmallMixture("sliding_attention"))).contains("rope"));
  EXPECT_FALSE(Attention(Read("flint", SmallMixture("full_attention"))).contains("rope"));
}

TEST(Decoders, KolibriIsServedWithWindows) {
  EXPECT_EQ(Attention(Read("kolibri1", SmallMixture("sliding_attention")))["window"], 1);
  EXPECT_THAT(Refusal("kolibri1", SmallMixture("full_attention")),
              HasSubstr("layer_types[0]: \"full_attention\" is not served of this family"));
}

}  // namespace
}  // namespace heed
