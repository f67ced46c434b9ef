// What golden cases of Transformer-XL and XLNet do not show: clusters with tables of their own, what is
// refused.
#include "engine/families/family.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NativeModel Read(const std::string& type, Json config, const std::string& architecture = "SomeModel") {
  config["model_type"] = type;
  config["architectures"] = {architecture};
  const auto weights = Weights::Of({});
  auto read = ReadCheckpoint(config, *weights);
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? *std::move(read) : NativeModel{};
}

std::string Refusal(const std::string& type, Json config) {
  config["model_type"] = type;
  const auto weights = Weights::Of({});
  return std::string(ReadCheckpoint(config, *weights).status().message());
}

std::vector<std::string> NamesOf(const NativeModel& model, const std::string& name) {
  const ViewedTensor* viewed = model.tensors->Find(name);
  return viewed == nullptr ? std::vector<std::string>{"none"} : viewed->names();
}

const Json kDivided = {{"vocab_size", 100}, {"cutoffs", {20, 60}}, {"div_val", 2}, {"d_embed", 64}};

TEST(TransfoXlFamily, RarerClustersHaveNarrowerTables) {
  const NativeModel model = Read("transfo-xl", kDivided, "TransfoXLLMHeadModel");
  const Json clusters = {
      {{"tokens", 20}, {"width", 64}}, {{"tokens", 40}, {"width", 32}}, {{"tokens", 40}, {"width", 16}}};
  EXPECT_EQ(model.config["embedding_clusters"], clusters);
  EXPECT_EQ(model.config["head_clusters"], clusters);
  EXPECT_THAT(NamesOf(model, "embed.2.tokens.weight"), ElementsAre("word_emb.emb_layers.2.weight"));
  EXPECT_THAT(NamesOf(model, "embed.2.projection.weight"), ElementsAre("word_emb.emb_projs.2"));
}

TEST(TransfoXlFamily, AHeadIsTiedToTheEmbeddingButForItsFirstProjection) {
  const NativeModel tied = Read("transfo-xl", kDivided, "TransfoXLLMHeadModel");
  EXPECT_THAT(NamesOf(tied, "lm_head.0.weight"),
              ElementsAre("word_emb.emb_layers.0.weight", "crit.cluster_weight"));
  EXPECT_THAT(NamesOf(tied, "lm_head.1.weight"), ElementsAre("word_emb.emb_layers.1.weight"));
  EXPECT_THAT(NamesOf(tied, "lm_head.0.projection.weight"), ElementsAre("crit.out_projs.0"));
  EXPECT_THAT(NamesOf(tied, "lm_head.1.projection.weight"), ElementsAre("word_emb.emb_projs.1"));
  Json config = kDivided;
  config.update({{"tie_word_embeddings", false}, {"tie_projs", {true, false, true}}});
  const NativeModel apart = Read("transfo-xl", config, "TransfoXLLMHeadModel");
  EXPECT_THAT(NamesOf(apart, "lm_head.1.weight"), ElementsAre("crit.out_layers.1.weight"));
  EXPECT_THAT(NamesOf(apart, "lm_head.0.projection.weight"), ElementsAre("word_emb.emb_projs.0"));
  EXPECT_THAT(NamesOf(apart, "lm_head.1.projection.weight"), ElementsAre("crit.out_projs.1"));
}

// The norm of a row of zeros is its bias.
TEST(TransfoXlFamily, RowsBeforeTheTextAreZerosOrWhatTheirNormMakesOfThem) {
  EXPECT_THAT(NamesOf(Read("transfo-xl", Json::object()), "layers.0.attention.null_k"), IsEmpty());
  EXPECT_THAT(NamesOf(Read("transfo-xl", {{"pre_lnorm", true}}), "layers.0.attention.null_k"),
              ElementsAre("layers.0.dec_attn.qkv_net.weight", "layers.0.dec_attn.layer_norm.bias"));
}

TEST(TransfoXlFamily, RefusesWhatIsNotServed) {
  EXPECT_THAT(Refusal("transfo-xl", {{"same_length", false}}), HasSubstr("same_length: false"));
  EXPECT_THAT(Refusal("transfo-xl", {{"attn_type", 1}}), HasSubstr("attn_type: 1 is not served"));
  EXPECT_THAT(Refusal("transfo-xl", {{"d_head", 32}}),
              HasSubstr("d_head: 32 of 16 heads, where d_model is 1024"));
  EXPECT_THAT(Refusal("transfo-xl", {{"cutoffs", {9, 9}}}), HasSubstr("cutoffs"));
  EXPECT_THAT(Refusal("transfo-xl", {{"vocab_size", 30000}}), HasSubstr("below vocab_size 30000"));
  EXPECT_THAT(Refusal("transfo-xl", {{"div_val", 1000}}), HasSubstr("div_val: 1000 leaves the cluster"));
  EXPECT_THAT(Refusal("transfo-xl", {{"architectures", {"TransfoXLForSequenceClassification"}}}),
              HasSubstr("of this family Model, LMHeadModel"));
}

TEST(XlnetFamily, ASummaryMayBeOfAnyRowAndWithoutAProduct) {
  const NativeModel model = Read("xlnet", {{"summary_type", "mean"}, {"summary_use_proj", false}},
                                 "XLNetForSequenceClassification");
  EXPECT_EQ(model.config["pooling"], "mean");
  EXPECT_FALSE(model.config.contains("head_layers"));
  const NativeModel last = Read("xlnet", Json::object(), "XLNetForSequenceClassification");
  EXPECT_EQ(last.config["pooling"], "last");
  EXPECT_EQ(last.config["head_layers"].size(), 1);
}

TEST(XlnetFamily, RefusesWhatIsNotServed) {
  EXPECT_THAT(Refusal("xlnet", {{"attn_type", "uni"}}), HasSubstr("attn_type: \"uni\" is not served"));
  EXPECT_THAT(Refusal("xlnet", {{"clamp_len", 8}}), HasSubstr("clamp_len: 8 is not served; -1 is"));
  EXPECT_THAT(Refusal("xlnet", {{"bi_data", true}}), HasSubstr("bi_data: true is not served"));
  EXPECT_THAT(Refusal("xlnet", {{"architectures", {"XLNetForQuestionAnswering"}}}),
              HasSubstr("ForQuestionAnsweringSimple"));
  EXPECT_THAT(
      Refusal("xlnet", {{"architectures", {"XLNetForSequenceClassification"}}, {"summary_type", "attn"}}),
      HasSubstr("summary_type"));
}

}  // namespace
}  // namespace heed
