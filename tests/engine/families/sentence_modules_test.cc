#include "engine/families/sentence_modules.h"

#include <filesystem>

#include "engine/base/status.h"
#include "engine/families/generation_config.h"
#include "engine/families/mask_token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"

namespace heed {
namespace {

using testing::HasSubstr;

constexpr char kTransformer[] =
    R"({"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"})";
constexpr char kPooling[] =
    R"({"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})";
constexpr char kDense[] = R"({"idx": 2, "path": "2_Dense", "type": "sentence_transformers.models.Dense"})";
constexpr char kNormalize[] =
    R"({"idx": 3, "path": "3_Normalize", "type": "sentence_transformers.models.Normalize"})";

// What a folder has beside its config.json.
class SentenceModulesTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_ / name).parent_path());
    folder_.Write(name, text);
  }
  std::string Refusal() { return std::string(ReadSentenceModules(folder_.path()).status().message()); }

  TempFolder folder_;
};

TEST_F(SentenceModulesTest, AFolderWithoutThemIsLeftAsItIs) {
  const auto modules = ReadSentenceModules(folder_.path());
  ASSERT_TRUE(modules.ok()) << modules.status();
  NativeModel model{.config = {{"head", "lm"}}, .tensors = TensorView()};
  EXPECT_TRUE(modules->Apply(model).ok());
  EXPECT_EQ(model.config, Json({{"head", "lm"}}));
}

TEST_F(SentenceModulesTest, TheyMakeABaseModelAnEmbedder) {
  Write("modules.json", Cat("[", kTransformer, ",", kPooling, ",", kDense, ",", kNormalize, "]"));
  Write("1_Pooling/config.json", R"({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": true})");
  Write(
      "2_Dense/config.json",
      R"({"in_features": 32, "out_features": 20, "activation_function": "torch.nn.modules.activation.Tanh"})");
  const auto modules = ReadSentenceModules(folder_.path());
  ASSERT_TRUE(modules.ok()) << modules.status();
  EXPECT_THAT(modules->folders(), testing::ElementsAre("2_Dense"));
  NativeModel model{.config = Json::object(), .tensors = TensorView()};
  ASSERT_TRUE(modules->Apply(model).ok());
  EXPECT_EQ(model.config["pooling"], "mean");
  EXPECT_EQ(model.config["normalize"], true);
  EXPECT_EQ(model.config["head_layers"],
            Json::parse(R"([{"width": 20, "hidden_act": "tanh", "norm": false}])"));
  EXPECT_EQ(model.tensors->Find("head_layers.0.weight")->names()[0], "2_Dense/linear.weight");
}

TEST_F(SentenceModulesTest, ATextIsAsLongAsSentenceBertConfigSays) {
  const auto longest = [&] {
    NativeModel model{.config = Json::object(), .tensors = TensorView()};
    EXPECT_TRUE(ReadSentenceModules(folder_.path())->Apply(model).ok());
    return model.config.value("max_seq_length", -1);
  };
  Write("modules.json", Cat("[", kTransformer, ",", kPooling, "]"));
  Write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  EXPECT_EQ(longest(), -1);
  Write("sentence_bert_config.json", R"({"max_seq_length": null, "do_lower_case": false})");
  EXPECT_EQ(longest(), -1);
  Write("sentence_bert_config.json", R"({"max_seq_length": 256, "do_lower_case": false})");
  EXPECT_EQ(longest(), 256);
  Write("sentence_bert_config.json", R"({"max_seq_length": 0})");
  EXPECT_THAT(Refusal(), HasSubstr("sentence_bert_config.json: max_seq_length: 0 is below 1"));
}

TEST_F(SentenceModulesTest, WhatIsNotServedIsRefusedByName) {
  Write("modules.json", Cat("[", kTransformer,
                            R"(, {"idx": 1, "path": "1_CNN", "type": "sentence_transformers.models.CNN"}])"));
  EXPECT_THAT(Refusal(), HasSubstr("modules.json: [1]: type \"sentence_transformers.models.CNN\""));
  Write("modules.json", Cat("[", kTransformer, ",", kPooling, "]"));
  Write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true})");
  EXPECT_THAT(Refusal(), HasSubstr("1_Pooling/config.json: pooling_mode_max_tokens: several poolings"));
  Write("1_Pooling/config.json", "{}");
  EXPECT_THAT(Refusal(), HasSubstr("1_Pooling/config.json: no pooling mode is set"));
  Write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true, "include_prompt": false})");
  EXPECT_THAT(Refusal(), HasSubstr("1_Pooling/config.json: include_prompt: false is not served"));
  Write("modules.json", "{}");
  EXPECT_THAT(Refusal(), HasSubstr("modules.json: is not a list"));
}

TEST_F(SentenceModulesTest, APoolingIsAModeInNewerFiles) {
  Write("modules.json", Cat("[", kTransformer, ",", kPooling, "]"));
  for (const auto& [mode, pooling] :
       {std::pair("cls", "first"), std::pair("mean", "mean"), std::pair("lasttoken", "last"),
        std::pair("mean_sqrt_len_tokens", "mean_sqrt_len")}) {
    Write("1_Pooling/config.json", Cat(R"({"embedding_dimension": 32, "pooling_mode": ")", mode, "\"}"));
    EXPECT_EQ(ReadSentenceModules(folder_.path())->pooling, pooling);
  }
  Write("1_Pooling/config.json", R"({"pooling_mode": ["cls", "mean"]})");
  EXPECT_THAT(Refusal(), HasSubstr(R"(pooling_mode: ["cls","mean"] is no single pooling that is served)"));
}

TEST_F(SentenceModulesTest, AModelWithAHeadGivesNoEmbeddings) {
  Write("modules.json", Cat("[", kTransformer, ",", kPooling, "]"));
  Write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  NativeModel model{.config = {{"head", "lm"}}, .tensors = TensorView()};
  EXPECT_THAT(ReadSentenceModules(folder_.path())->Apply(model).message(),
              HasSubstr("has a head of its own"));
}

TEST_F(SentenceModulesTest, IdsOfGenerationConfigHoldInsteadOfConfigs) {
  NativeModel model{.config = {{"vocab_size", 10}, {"eos_token_id", 1}}, .tensors = TensorView()};
  ASSERT_TRUE(TakeGenerationConfig(folder_.path(), model).ok());
  EXPECT_EQ(model.config["eos_token_id"], 1);
  Write("generation_config.json", R"({"eos_token_id": [2, 3, 99], "temperature": 0.6})");
  ASSERT_TRUE(TakeGenerationConfig(folder_.path(), model).ok());
  EXPECT_EQ(model.config["eos_token_id"], Json({2, 3}));
  Write("generation_config.json", "[]");
  EXPECT_THAT(TakeGenerationConfig(folder_.path(), model).message(), HasSubstr("is not an object"));
}

TEST_F(SentenceModulesTest, AMaskedLanguageModelsMaskIsItsTokenizers) {
  const auto mask = [&](const char* head) {
    NativeModel model{.config = {{"vocab_size", 10}, {"head", head}, {"architecture", "encoder"}},
                      .tensors = TensorView()};
    EXPECT_TRUE(TakeMaskToken(folder_.path(), model).ok());
    return model.config.value("mask_token_id", -1);
  };
  EXPECT_EQ(mask("lm"), -1);
  Write("vocab.txt", "[PAD]\n[UNK]\n[MASK]\nthe\n");
  EXPECT_EQ(mask("lm"), 2);
  EXPECT_EQ(mask("classification"), -1);
  Write("tokenizer.json",
        R"({"added_tokens": [{"id": 3, "content": "</s>"}, {"id": 7, "content": "<mask>"}]})");
  EXPECT_EQ(mask("lm"), 7);
  Write("tokenizer.json", R"({"added_tokens": [{"id": 10, "content": "<mask>"}]})");
  EXPECT_EQ(mask("lm"), -1);
}

}  // namespace
}  // namespace heed
