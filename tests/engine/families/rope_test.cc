#include "engine/families/rope.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::HasSubstr;

struct Read {
  Json rope;
  std::string error;
};

Read Reading(const Json& config, std::string_view layer_type = "full_attention") {
  const auto weights = Weights::Of({});
  Checkpoint checkpoint(config, *weights);
  Json rope = ReadRope(checkpoint, {.share = 0.5}, 16, layer_type);
  return {std::move(rope), std::string(checkpoint.fields().error().message())};
}

TEST(Rope, WhatIsNotToldIsTheFamilys) {
  EXPECT_EQ(Reading(Json::object()).rope, Json({{"theta", 10000.0}, {"dims", 8}, {"layout", "half"}}));
  EXPECT_EQ(Reading({{"rope_theta", 100}, {"partial_rotary_factor", 0.4}}).rope["dims"], 6);
  EXPECT_EQ(Reading({{"rope_parameters", {{"rope_theta", 30}, {"partial_rotary_factor", 1}}}}).rope,
            Json({{"theta", 30.0}, {"dims", 16}, {"layout", "half"}}));
}

TEST(Rope, AScalingIsCalledByEitherKey) {
  const Json scaling = {{"type", "linear"}, {"factor", 2.5}};
  EXPECT_EQ(Reading({{"rope_scaling", {{"type", "linear"}, {"factor", 2.5}}}}).rope["scaling"], scaling);
  EXPECT_EQ(Reading({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.5}}}}).rope["scaling"], scaling);
  EXPECT_FALSE(Reading({{"rope_scaling", {{"rope_type", "default"}}}}).rope.contains("scaling"));
}

TEST(Rope, NtkIsTheScalingOfFamiliesThatHaveIt) {
  const auto weights = Weights::Of({});
  const Json config = {{"rope_scaling", {{"type", "ntk"}, {"factor", 16}}}, {"rope_theta", 100}};
  Checkpoint checkpoint(config, *weights);
  EXPECT_EQ(ReadRope(checkpoint, {.ntk = true}, 8),
            Json({{"theta", 1600.0},
                  {"dims", 8},
                  {"layout", "half"},
                  {"scaling", {{"type", "linear"}, {"factor", 2.0}}}}));
  EXPECT_THAT(Reading(config).error, HasSubstr("rope_type: \"ntk\" is not served"));
}

TEST(Rope, YarnsOriginalLengthIsTheModelsWhereItIsNotTold) {
  const Json config = {{"rope_scaling", {{"type", "yarn"}, {"factor", 4}}}, {"max_position_embeddings", 512}};
  EXPECT_EQ(Reading(config).rope["scaling"]["original_max_position_embeddings"], 512);
}

TEST(Rope, ALayerTypeMayHaveItsOwnOrNone) {
  const Json config = {
      {"rope_parameters", {{"full_attention", nullptr}, {"sliding_attention", {{"rope_theta", 30}}}}}};
  EXPECT_TRUE(Reading(config).rope.is_null());
  EXPECT_EQ(Reading(config, "sliding_attention").rope["theta"], 30);
  EXPECT_THAT(Reading(config, "compress").error, HasSubstr("rope_parameters: there are none of compress"));
}

TEST(Rope, AProportionalOneTurnsAShareOfTheWholeHeadsPairs) {
  const Json rope =
      Reading({{"rope_parameters", {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.5}}}}).rope;
  EXPECT_EQ(rope, Json({{"theta", 10000.0},
                        {"dims", 16},
                        {"layout", "half"},
                        {"scaling", {{"type", "proportional"}, {"share", 0.5}}}}));
}

TEST(Rope, WhatIsNotServedIsRefusedByName) {
  EXPECT_THAT(
      Reading({{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}}).error,
      HasSubstr("rope_scaling: rope_type: \"dynamic\" is not served; default, linear, llama3, yarn and "
                "proportional are"));
  EXPECT_THAT(Reading({{"rope_scaling", {{"type", "linear"}}}}).error,
              HasSubstr("rope_scaling: factor is missing"));
  EXPECT_THAT(Reading({{"rope_parameters", {{"llama_4_scaling_beta", 0.1}}}}).error,
              HasSubstr("rope_parameters: unknown key \"llama_4_scaling_beta\""));
}

}  // namespace
}  // namespace heed
