// What golden cases of the Reformer do not show: what is drawn, what is refused.
#include "engine/families/family.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<NativeModel> Read(Json config) {
  config["model_type"] = "reformer";
  return ReadCheckpoint(config, *Weights::Of({}));
}

std::string Refusal(const Json& config) { return std::string(Read(config).status().message()); }

Json Attention(const Json& config) {
  const auto read = Read(config);
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? read->config["layers"][0]["attention"] : Json();
}

TEST(ReformerFamily, ADecoderLooksAtNoChunkAfterARows) {
  Json config = {{"attn_layers", {"lsh"}}, {"lsh_num_chunks_after", 2}, {"num_buckets", {4, 8}}};
  EXPECT_EQ(Attention(config)["chunks_after"], 2);
  config["is_decoder"] = true;
  EXPECT_FALSE(Attention(config).contains("chunks_after"));
  EXPECT_EQ(Attention({{"attn_layers", {"local"}}, {"attention_head_size", 24}, {"is_decoder", true}}),
            Json({{"type", "blockwise"}, {"block", 64}, {"blocks_before", 1}, {"head_dim", 24}}));
}

TEST(ReformerFamily, RotationsAreDrawnOnceForAll) {
  const Json config = {{"attn_layers", {"lsh", "lsh"}},
                       {"num_buckets", {4, 8}},
                       {"num_hashes", 3},
                       {"num_attention_heads", 2},
                       {"attention_head_size", 5}};
  const auto drawn = [&](const char* name) {
    return ToFloats(*Read(config)->tensors->Find(name)->Make(*Weights::Of({})));
  };
  const std::vector<float> first = drawn("layers.0.attention.rotations");
  EXPECT_EQ(first.size(), 180u);
  EXPECT_EQ(first, drawn("layers.0.attention.rotations"));
  EXPECT_NE(first, drawn("layers.1.attention.rotations"));
}

TEST(ReformerFamily, PositionsAreAGridOrATable) {
  Json config = {{"attn_layers", Json::array()}, {"axial_pos_shape", {6, 7}}};
  EXPECT_EQ(Read(config)->config["max_position_embeddings"], 42);
  EXPECT_THAT(
      Read(config)->tensors->Find("embed.positions.weight")->names(),
      ElementsAre("embeddings.position_embeddings.weights.0", "embeddings.position_embeddings.weights.1"));
  config["axial_pos_embds"] = false;
  EXPECT_EQ(Read(config)->config["max_position_embeddings"], 4096);
  EXPECT_THAT(Refusal({{"axial_pos_shape", {1 << 20, 1 << 20}}, {"attn_layers", Json::array()}}),
              HasSubstr("axial_pos_shape: more than"));
}

TEST(ReformerFamily, BucketsThatAreNotToldAreThoseOfTheLongestText) {
  EXPECT_EQ(Attention({{"attn_layers", {"lsh"}}})["num_buckets"], 128);
  EXPECT_EQ(Attention({{"attn_layers", {"lsh"}}, {"lsh_attn_chunk_length", 16}})["num_buckets"],
            Json({16, 32}));
  EXPECT_EQ(Attention({{"attn_layers", {"lsh"}}, {"max_position_embeddings", 20}})["num_buckets"], 2);
}

TEST(ReformerFamily, BucketsThatAreNotToldAreThoseOfRotationsThatStandBesideTheWeights) {
  const Json config = {{"model_type", "reformer"}, {"attn_layers", {"lsh"}}, {"lsh_attn_chunk_length", 16}};
  const std::vector<float> numbers(12 * 64 * 24);
  for (const auto& [directions, buckets] : {std::pair<int64_t, Json>{4, 8}, {8, 16}, {12, {8, 16}}}) {
    const auto weights =
        Weights::Of({{"rotations.0", {DType::kF32, {12, 64, 1, directions}, numbers.data()}}});
    const auto read = ReadCheckpoint(config, *weights);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->config["layers"][0]["attention"]["num_buckets"], buckets) << directions;
  }
}

TEST(ReformerFamily, AnEncodersLocalChunksLieInACircle) {
  Json config = {{"attn_layers", {"local", "lsh"}}, {"local_num_chunks_after", 1}};
  config["local_attn_chunk_length"] = 32;
  EXPECT_EQ(Attention(config), Json({{"type", "blockwise"},
                                     {"block", 32},
                                     {"blocks_before", 1},
                                     {"blocks_after", 1},
                                     {"wrap_unit", 64},
                                     {"head_dim", 64}}));
  config["attn_layers"] = {"local"};
  EXPECT_EQ(Attention(config)["wrap_unit"], 32);
}

TEST(ReformerFamily, WhatIsNotServedIsRefused) {
  EXPECT_THAT(Refusal({{"attn_layers", {"lsh"}}, {"num_buckets", "many"}}),
              HasSubstr("num_buckets: \"many\" is no number"));
  EXPECT_THAT(Refusal({{"attn_layers", {"local", "lsh"}}, {"local_attn_chunk_length", 48}}),
              HasSubstr("local_attn_chunk_length: 48; one that divides lsh_attn_chunk_length, 64"));
  EXPECT_THAT(Refusal({{"attn_layers", {"global"}}}),
              HasSubstr("\"global\" is neither \"lsh\" nor \"local\""));
  EXPECT_THAT(Refusal({{"attn_layers", "lsh"}}), HasSubstr("attn_layers: \"lsh\" is no list of layers"));
}

}  // namespace
}  // namespace heed
