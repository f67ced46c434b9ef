// What families of encoders and encoder-decoders make of a config.json where golden cases do not show it.
#include <utility>

#include "engine/base/status.h"
#include "engine/families/family.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::HasSubstr;

Json Checkpointed(const std::string& type, const std::string& architecture,
                  const Json& keys = Json::object()) {
  Json config = {{"model_type", type}, {"architectures", {architecture}}};
  config.update(keys);
  return config;
}

// A file whose tensors have names, and no numbers.
std::unique_ptr<Weights> Named(const std::vector<std::string>& names) {
  std::map<std::string, Tensor> tensors;
  for (const std::string& name : names) tensors[name] = {};
  return Weights::Of(std::move(tensors));
}

absl::StatusOr<NativeModel> Read(const Json& config, const std::vector<std::string>& names = {}) {
  return ReadCheckpoint(config, *Named(names));
}

std::string Refusal(const Json& config, const std::vector<std::string>& names = {}) {
  const auto read = Read(config, names);
  return read.ok() ? "" : std::string(read.status().message());
}

// The file's name of what the model calls `name`; "" if there is none.
std::string NameOf(const NativeModel& model, const std::string& name) {
  const ViewedTensor* viewed = model.tensors->Find(name);
  return viewed == nullptr || viewed->names().empty() ? "" : viewed->names()[0];
}

TEST(Encoders, TasksThatAreNotServedAreRefusedWithThoseThatAre) {
  EXPECT_THAT(Refusal(Checkpointed("distilbert", "DistilBertForMultipleChoice")),
              HasSubstr("\"DistilBertForMultipleChoice\": of this family Model, ForMaskedLM"));
  EXPECT_THAT(
      Refusal(Checkpointed("longformer", "LongformerForQuestionAnswering")),
      HasSubstr("of this family Model, ForMaskedLM, ForSequenceClassification, ForTokenClassification are"));
  EXPECT_THAT(Refusal(Checkpointed("t5", "T5ForTokenClassification")),
              HasSubstr("of this family EncoderModel, ForConditionalGeneration are served"));
  EXPECT_THAT(Refusal(Checkpointed("vit", "ViTForMaskedImageModeling")),
              HasSubstr("Model, ForImageClassification"));
}

TEST(Encoders, OptionsThatAreNotServedAreRefusedByName) {
  EXPECT_THAT(Refusal(Checkpointed("mpnet", "MPNetModel", {{"relative_attention_num_buckets", 16}})),
              HasSubstr("relative_attention_num_buckets: 16 is not served; 32 is"));
  EXPECT_THAT(
      Refusal(Checkpointed("marian", "MarianMTModel", {{"vocab_size", 9}, {"decoder_vocab_size", 8}})),
      HasSubstr("decoder_vocab_size: 8 is not vocab_size, 9"));
  EXPECT_THAT(Refusal(Checkpointed("swin", "SwinModel", {{"layer_norm_eps", 1e-6}})),
              HasSubstr("layer_norm_eps: 1e-06 is not served"));
  EXPECT_THAT(Refusal(Checkpointed("swin", "SwinModel", {{"depths", {2, 2}}, {"num_heads", {2, 2, 2}}})),
              HasSubstr("num_heads: of 3 stages, where depths are of 2"));
  EXPECT_THAT(Refusal(Checkpointed("nystromformer", "NystromformerModel", {{"inv_coeff_init_option", true}})),
              HasSubstr("inv_coeff_init_option: true is not served"));
  EXPECT_THAT(Refusal(Checkpointed("yoso", "YosoModel", {{"conv_window", 33}})),
              HasSubstr("conv_window: a convolution of values is not served"));
  EXPECT_THAT(Refusal(Checkpointed("yoso", "YosoModel", {{"use_expectation", false}})),
              HasSubstr("use_expectation: false is not served"));
  EXPECT_THAT(
      Refusal(Checkpointed("deberta-v2", "DebertaV2Model", {{"conv_kernel_size", 3}, {"conv_groups", 2}})),
      HasSubstr("conv_groups: 2 is not served; 1 is"));
  EXPECT_THAT(Refusal(Checkpointed("longt5", "LongT5EncoderModel", {{"encoder_attention_type", "global"}})),
              HasSubstr("encoder_attention_type"));
  EXPECT_THAT(
      Refusal(Checkpointed("albert", "AlbertModel", {{"num_hidden_layers", 600}, {"inner_group_num", 2}})),
      HasSubstr("num_hidden_layers: 600 times inner_group_num 2 layers; at most 1024"));
  EXPECT_THAT(Refusal(Checkpointed("m2m_100", "M2M100ForConditionalGeneration",
                                   {{"max_position_embeddings", 1 << 24}})),
              HasSubstr("max_position_embeddings: 16777216 times d_model 1024 numbers of a table"));
}

TEST(Encoders, AlbertsLayersAreTheirGroups) {
  const auto read = Read(Checkpointed(
      "albert", "AlbertModel", {{"num_hidden_layers", 4}, {"num_hidden_groups", 2}, {"inner_group_num", 2}}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->config["layers"].size(), 8);
  const std::vector<std::string> groups = {"0.albert_layers.0", "0.albert_layers.1", "0.albert_layers.0",
                                           "0.albert_layers.1", "1.albert_layers.0", "1.albert_layers.1",
                                           "1.albert_layers.0", "1.albert_layers.1"};
  for (size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(NameOf(*read, Cat("layers.", i, ".ffn.up.weight")),
              Cat("encoder.albert_layer_groups.", groups[i], ".ffn.weight"));
  }
}

TEST(ModernBert, LayersAreOfTypesThatConfigJsonListsOrCounts) {
  const Json counted = {{"num_hidden_layers", 4}, {"global_attn_every_n_layers", 2}, {"local_attention", 10}};
  const auto old = Read(Checkpointed("modernbert", "ModernBertModel", counted));
  ASSERT_TRUE(old.ok()) << old.status();
  const Json listed = {{"num_hidden_layers", 2},
                       {"layer_types", {"sliding_attention", "full_attention"}},
                       {"rope_parameters",
                        {{"full_attention", nullptr},
                         {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 60.0}}}}}};
  const auto today = Read(Checkpointed("modernbert", "ModernBertModel", listed));
  ASSERT_TRUE(today.ok()) << today.status();
  const Json &of = old->config["layers"], &from = today->config["layers"];
  EXPECT_EQ(of[0]["attention"], (Json{{"type", "softmax"}, {"rope", {{"theta", 160000.0}}}}));
  EXPECT_EQ(of[1]["attention"], (Json{{"type", "softmax"}, {"rope", {{"theta", 10000.0}}}, {"window", 10}}));
  EXPECT_EQ(from[0]["attention"], (Json{{"type", "softmax"}, {"rope", {{"theta", 60.0}}}, {"window", 128}}));
  EXPECT_EQ(from[1]["attention"], (Json{{"type", "softmax"}}));
}

TEST(ModernBert, ATypeOrARotationThatIsNotServedIsRefusedByName) {
  EXPECT_THAT(Refusal(Checkpointed("modernbert", "ModernBertModel",
                                   {{"num_hidden_layers", 2}, {"layer_types", {"full_attention", "mamba"}}})),
              HasSubstr("layer_types: the layer 1 is neither"));
  EXPECT_THAT(Refusal(Checkpointed(
                  "modernbert", "ModernBertModel",
                  {{"rope_parameters",
                    {{"full_attention", {{"rope_type", "yarn"}}}, {"sliding_attention", nullptr}}}})),
              HasSubstr("rope_parameters.full_attention.rope_type"));
}

TEST(NomicBert, PublishedFilesHaveTheKeysOfGpt2) {
  const auto read = Read(Checkpointed("nomic_bert", "NomicBertModel",
                                      {{"n_embd", 24},
                                       {"n_head", 2},
                                       {"n_layer", 1},
                                       {"n_inner", 40},
                                       {"rotary_emb_base", 500},
                                       {"rotary_emb_fraction", 1.0},
                                       {"activation_function", "swiglu"}}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->config["hidden_size"], 24);
  EXPECT_EQ(read->config["intermediate_size"], 40);
  EXPECT_EQ(read->config["hidden_act"], "swiglu");
  EXPECT_EQ(read->config["layers"][0]["attention"]["rope"],
            (Json{{"theta", 500.0}, {"dims", 12}, {"layout", "half"}}));
  EXPECT_THAT(Refusal(Checkpointed("nomic_bert", "NomicBertModel", {{"prenorm", true}})),
              HasSubstr("prenorm: true is not served; false is"));
}

TEST(EuroBert, LatePoolingIsOfTheHeadsLayers) {
  const auto read = [](const char* pooling) {
    return Read(
        Checkpointed("eurobert", "EuroBertForSequenceClassification", {{"classifier_pooling", pooling}}));
  };
  const auto late = read("late"), mean = read("mean");
  ASSERT_TRUE(late.ok() && mean.ok()) << late.status() << mean.status();
  EXPECT_EQ(late->config["pooling"], "mean");
  EXPECT_EQ(late->config["late_pooling"], true);
  EXPECT_EQ(mean->config["late_pooling"], false);
  EXPECT_THAT(std::string(read("last").status().message()), HasSubstr("classifier_pooling"));
}

TEST(T5Gemma, AnEncodersWindowCountsItselfBeforeTransformers5) {
  const auto window = [](const std::string& version) {
    const auto read = Read(Checkpointed("t5gemma", "T5GemmaForConditionalGeneration",
                                        {{"transformers_version", version},
                                         {"encoder", {{"sliding_window", 8}}},
                                         {"decoder", {{"sliding_window", 6}}}}));
    EXPECT_TRUE(read.ok()) << read.status();
    if (!read.ok()) return std::pair(0, 0);
    return std::pair(read->config["layers"][0]["attention"]["window"].get<int>(),
                     read->config["decoder_layers"][0]["attention"]["window"].get<int>());
  };
  EXPECT_EQ(window("4.57.1"), std::pair(14, 6));
  EXPECT_EQ(window("5.0.0"), std::pair(16, 6));
}

TEST(T5Gemma, SidesMayDifferInWidthAndNotInActivation) {
  const auto read =
      Read(Checkpointed("t5gemma", "T5GemmaForConditionalGeneration",
                        {{"encoder", {{"hidden_size", 64}}}, {"decoder", {{"hidden_size", 16}}}}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->config["hidden_size"], 64);
  EXPECT_EQ(read->config["embedding_scale"], 8);
  EXPECT_EQ(read->config["decoder_hidden_size"], 16);
  EXPECT_EQ(read->config["decoder_embedding_scale"], 4);
  EXPECT_THAT(Refusal(Checkpointed("t5gemma", "T5GemmaForConditionalGeneration",
                                   {{"encoder", {{"hidden_activation", "gelu_pytorch_tanh"}}},
                                    {"decoder", {{"hidden_activation", "relu"}}}})),
              HasSubstr("decoder: hidden_act \"reglu\", the encoder has \"geglu_new\""));
}

TEST(T5, TheHeadIsWhatTheTransformersOfTheFileTakes) {
  const auto read = [](const std::string& type, const std::string& version, bool tied, bool stored) {
    Json config =
        Checkpointed(type, "T5ForConditionalGeneration",
                     {{"transformers_version", version}, {"d_model", 16}, {"tie_word_embeddings", tied}});
    return Read(config, stored ? std::vector<std::string>{"lm_head.weight"} : std::vector<std::string>{});
  };
  const auto scale = [](const NativeModel& model) { return model.config.value("logits_scale", 1.0); };
  const auto tied = read("t5", "4.57.1", true, true), apart = read("t5", "4.57.1", false, true),
             both = read("t5", "5.23.0", true, true), mt5 = read("mt5", "5.23.0", true, true),
             umt5 = read("umt5", "5.23.0", false, true);
  for (const auto* model : {&tied, &apart, &both, &mt5, &umt5}) ASSERT_TRUE(model->ok()) << model->status();
  EXPECT_EQ(NameOf(*tied, "lm_head.weight"), "");  // and what the file has under the name is passed over
  EXPECT_TRUE(tied->tensors->Ignores("lm_head.weight"));
  EXPECT_EQ(scale(*tied), 0.25);
  EXPECT_EQ(NameOf(*apart, "lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(scale(*apart), 1);
  EXPECT_EQ(NameOf(*both, "lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(scale(*both), 0.25);
  EXPECT_EQ(scale(*mt5), 1);
  EXPECT_EQ(scale(*umt5), 0.25);
  EXPECT_THAT(std::string(read("t5", "4.57.1", false, false).status().message()),
              HasSubstr("tie_word_embeddings: false, and the file has no tensor \"lm_head.weight\""));
}

TEST(T5, GatedGeluIsTheTanhOne) {
  const auto act = [](const Json& keys) {
    return Read(Checkpointed("t5", "T5EncoderModel", keys))->config["hidden_act"].get<std::string>();
  };
  EXPECT_EQ(act({{"feed_forward_proj", "gated-gelu"}}), "geglu_new");
  EXPECT_EQ(act({{"feed_forward_proj", "gated-silu"}}), "swiglu");
  EXPECT_EQ(act({{"feed_forward_proj", "gelu"}}), "gelu");
  EXPECT_EQ(act(Json::object()), "relu");
}

TEST(Bart, TheSharedTableIsWhicheverTheFileHas) {
  const Json config = Checkpointed("bart", "BartForConditionalGeneration");
  const auto shared = Read(config, {"model.shared.weight", "model.encoder.embed_tokens.weight"}),
             of_encoder =
                 Read(config, {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}),
             of_decoder = Read(config, {"model.decoder.embed_tokens.weight"});
  for (const char* side : {"encoder.", "decoder."}) {
    const std::string name = Cat(side, "embed.tokens.weight");
    EXPECT_EQ(NameOf(*shared, name), "model.shared.weight");
    EXPECT_EQ(NameOf(*of_encoder, name), "model.encoder.embed_tokens.weight");
    EXPECT_EQ(NameOf(*of_decoder, name), "model.decoder.embed_tokens.weight");
  }
}

TEST(Bart, AClassifierReadsItsInputTwiceUpToTheLastEndToken) {
  const auto read = Read(Checkpointed("bart", "BartForSequenceClassification", {{"eos_token_id", 2}}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->config["architecture"], "twice-read-encoder");
  EXPECT_EQ(read->config["pooling"], "last_token");
  EXPECT_EQ(read->config["pooling_token"], 2);
  EXPECT_THAT(Refusal(Checkpointed("bart", "BartForSequenceClassification", {{"eos_token_id", {2, 3}}})),
              HasSubstr("eos_token_id: [2,3] is not the id"));
  EXPECT_THAT(Refusal(Checkpointed("mbart", "MBartForSequenceClassification")),
              HasSubstr("of this family ForConditionalGeneration are served"));
}

TEST(Switch, LayersWithARouterAreMixturesAndTextsAreAsLongAsAnExpertTakes) {
  const auto read = Read(Checkpointed("switch_transformers", "SwitchTransformersForConditionalGeneration",
                                      {{"num_layers", 2}, {"num_experts", 3}, {"expert_capacity", 20}}),
                         {"encoder.block.1.layer.1.mlp.router.classifier.weight"});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->config["layers"][0].contains("ffn"));
  EXPECT_EQ(read->config["layers"][1]["ffn"], (Json{{"type", "moe"}, {"experts", 3}, {"top_k", 1}}));
  EXPECT_EQ(read->config["max_position_embeddings"], 20);
}

TEST(Bart, SidesMayHaveHeadsAndWidthsOfTheirOwn) {
  const auto read = Read(Checkpointed("bart", "BartForConditionalGeneration",
                                      {{"encoder_attention_heads", 4},
                                       {"decoder_attention_heads", 2},
                                       {"encoder_ffn_dim", 64},
                                       {"decoder_ffn_dim", 32}}));
  ASSERT_TRUE(read.ok()) << read.status();
  const Json own = {{"type", "full"}, {"num_heads", 2}};
  EXPECT_EQ(read->config["layers"][0], (Json{{"attention", {{"type", "full"}}}}));
  EXPECT_EQ(read->config["decoder_layers"][0],
            (Json{{"attention", own}, {"cross_attention", own}, {"ffn", {{"intermediate_size", 32}}}}));
}

TEST(BigBird, RandomBlocksAreTheFirstOnceMoreEach) {
  const auto attention = [](const char* type) {
    return Read(Checkpointed("big_bird", "BigBirdModel", {{"attention_type", type}}))
        ->config["layers"][0]["attention"];
  };
  EXPECT_EQ(attention("block_sparse"), (Json{{"type", "bigbird"},
                                             {"block_size", 64},
                                             {"num_blocks", 64},
                                             {"num_random_blocks", 0},
                                             {"first_block_count", 4},
                                             {"full_up_to", (5 + 2 * 3) * 64}}));
  EXPECT_EQ(attention("original_full"), (Json{{"type", "full"}}));
  EXPECT_THAT(Refusal(Checkpointed("big_bird", "BigBirdModel", {{"attention_type", "band"}})),
              HasSubstr("attention_type"));
}

TEST(FunnelFamily, HasADecoderUnlessTheModelIsABase) {
  const Json model = Read(Checkpointed("funnel", "FunnelModel"))->config,
             base = Read(Checkpointed("funnel", "FunnelBaseModel"))->config,
             classes = Read(Checkpointed("funnel", "FunnelForSequenceClassification"))->config;
  EXPECT_EQ(model["decoder_layers"].size(), 2u);
  EXPECT_EQ(model["blocks"].size(), 3u);
  EXPECT_EQ(model["blocks"][1]["layers"].size(), 4u);
  EXPECT_FALSE(base.contains("decoder_layers"));
  EXPECT_FALSE(classes.contains("decoder_layers"));
}

TEST(FunnelFamily, LayersThatAreRepeatedStandSoOftenWithTheSameWeights) {
  const Json keys = {{"block_sizes", {1, 2}}, {"block_repeats", {1, 3}}};
  const auto read = Read(Checkpointed("funnel", "FunnelModel", keys));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->config["blocks"][1]["layers"].size(), 6u);
  EXPECT_EQ(NameOf(*read, "blocks.1.layers.2.norm1.weight"),
            "encoder.blocks.1.0.attention.layer_norm.weight");
  EXPECT_EQ(NameOf(*read, "blocks.1.layers.3.norm1.weight"),
            "encoder.blocks.1.1.attention.layer_norm.weight");
}

TEST(FunnelFamily, RefusesWhatIsNotServed) {
  const auto refusal = [](const Json& keys) { return Refusal(Checkpointed("funnel", "FunnelModel", keys)); };
  EXPECT_THAT(refusal({{"block_sizes", {2, 2}}, {"block_repeats", {2, 1}}}),
              HasSubstr("block_repeats: 2 of the first block; 1 is served"));
  EXPECT_THAT(refusal({{"block_sizes", {2, 2}}, {"block_repeats", {1}}}),
              HasSubstr("block_repeats: 1 numbers of 2 blocks"));
  EXPECT_THAT(refusal({{"block_sizes", {1000, 1000}}}), HasSubstr("block_sizes: 2000 layers"));
  EXPECT_THAT(refusal({{"attention_type", "absolute"}}), HasSubstr("attention_type"));
  EXPECT_THAT(refusal({{"pooling_type", "min"}}), HasSubstr("pooling_type"));
  EXPECT_THAT(Refusal(Checkpointed("funnel", "FunnelForMultipleChoice")),
              HasSubstr("of this family Model, BaseModel, ForMaskedLM"));
}

TEST(PerceiverFamily, NarrowQueriesAndKeysHaveZerosBehindThem) {
  const Json keys = {{"d_latents", 32}, {"qk_channels", 8}, {"v_channels", 32}, {"num_blocks", 3}};
  const auto read = Read(Checkpointed("perceiver", "PerceiverForMaskedLM", keys));
  ASSERT_TRUE(read.ok()) << read.status();
  const Json& attention = read->config["layers"][0]["attention"];
  EXPECT_EQ(attention["num_heads"], 8);
  EXPECT_EQ(attention["head_dim"], 4);
  EXPECT_EQ(attention["scale"], 1.0);
  EXPECT_EQ(read->config["layer_passes"], 3);
  EXPECT_EQ(read->config["output"]["cross_attention"]["head_dim"], 768 / 8);
  EXPECT_EQ(read->config["output"]["queries"], 2048);
}

TEST(PerceiverFamily, RefusesWhatIsNotServed) {
  const auto refusal = [](const Json& keys) {
    return Refusal(Checkpointed("perceiver", "PerceiverForMaskedLM", keys));
  };
  EXPECT_THAT(refusal({{"use_query_residual", false}}), HasSubstr("use_query_residual: false is not served"));
  EXPECT_THAT(refusal({{"qk_channels", 9}}),
              HasSubstr("qk_channels: 9, and v_channels: 9 are not divisible"));
  EXPECT_THAT(refusal({{"d_model", 20}}), HasSubstr("v_channels: 20 are not divisible by 8 heads"));
  EXPECT_THAT(Refusal(Checkpointed("perceiver", "PerceiverForOpticalFlow")),
              HasSubstr("of this family ForMaskedLM, ForSequenceClassification are served"));
}

// A plan that a golden case was made with; without one the family has transformers' own.
TEST(BigBirdFamily, APlanThatStandsBesideTheWeightsIsTaken) {
  const std::vector<int64_t> blocks(2 * 5 * 3);
  const auto weights = Weights::Of({{"rand_attn.0", {DType::kI64, {2, 5, 3}, blocks.data()}}});
  const Json config = Checkpointed("big_bird", "BigBirdForMaskedLM", {{"num_hidden_layers", 1}});
  const auto read = ReadCheckpoint(config, *weights);
  ASSERT_TRUE(read.ok()) << read.status();
  const Json& attention = read->config["layers"][0]["attention"];
  EXPECT_EQ(attention["num_blocks"], 7);
  EXPECT_EQ(attention["num_random_blocks"], 3);
  EXPECT_FALSE(attention.contains("first_block_count"));
  EXPECT_EQ(NameOf(*read, "layers.0.attention.random_blocks"), "rand_attn.0");
  EXPECT_EQ(Read(config)->config["layers"][0]["attention"]["num_random_blocks"], 0);
}

}  // namespace
}  // namespace heed
