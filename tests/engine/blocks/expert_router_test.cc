// Which experts a router chooses, and what they count.
#include "engine/blocks/expert_router.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

struct Chosen {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

// By logits, as rows have them. `correction`: router.correction.
Chosen Choose(const Json& options, const std::vector<float>& logits, std::vector<float> correction = {}) {
  const auto experts = static_cast<int64_t>(logits.size());
  Json all = options;
  all["experts"] = experts;
  JsonFields fields(all, "ffn");
  ExpertRouter router(fields);
  EXPECT_TRUE(fields.Finish().ok());
  std::vector<float> weight(experts * 2);
  const auto weights = Weights::Of({{"router.weight", {DType::kF32, {experts, 2}, weight.data()}},
                                    {"router.correction", {DType::kF32, {experts}, correction.data()}}});
  EXPECT_TRUE(router.Load(WeightScope(*weights), 2, /*shared_gate=*/false).ok());
  Chosen chosen{std::vector<int32_t>(router.top_k()), std::vector<float>(router.top_k())};
  Scratch scratch;
  router.Choose(logits.data(), scratch, chosen.experts.data(), chosen.weights.data());
  return chosen;
}

std::string Refusal(const Json& options) {
  JsonFields fields(options, "ffn");
  const ExpertRouter router(fields);
  return std::string(fields.Finish().message());
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(ExpertRouter, WeightsAreSharesOfAllOrOfTheChosen) {
  const double all = std::exp(1) + std::exp(3) + std::exp(2) + std::exp(0);
  const Chosen plain = Choose({{"top_k", 2}, {"normalize", false}}, {1, 3, 2, 0});
  EXPECT_THAT(plain.experts, ElementsAre(1, 2));
  EXPECT_THAT(plain.weights,
              ElementsAre(FloatNear(std::exp(3) / all, 1e-6), FloatNear(std::exp(2) / all, 1e-6)));
  const Chosen normal = Choose({{"top_k", 3}}, {1, 3, 2, 0});
  EXPECT_NEAR(normal.weights[0] + normal.weights[1] + normal.weights[2], 1, 1e-6);
  EXPECT_NEAR(normal.weights[0] / normal.weights[2], std::exp(2), 1e-4);
}

TEST(ExpertRouter, TheChosenAloneMayShareASoftmax) {
  const Chosen chosen = Choose({{"top_k", 2}, {"score", "chosen_softmax"}}, {1, 3, 2, 0});
  EXPECT_THAT(chosen.experts, ElementsAre(1, 2));
  EXPECT_THAT(chosen.weights, ElementsAre(FloatNear(Sigmoid(1), 1e-6), FloatNear(Sigmoid(-1), 1e-6)));
}

// The second is no farther than 2 % behind the first, the third farther than that behind either.
TEST(ExpertRouter, ASparseMixerSharesAmongThoseThatAreNearlyAsGood) {
  const Json options = {{"top_k", 2}, {"score", "sparse_mixer"}};
  const Chosen chosen = Choose(options, {1, 3, 2.95, -9});
  EXPECT_THAT(chosen.experts, ElementsAre(1, 2));
  EXPECT_THAT(chosen.weights, ElementsAre(FloatNear(Sigmoid(0.05), 1e-6), FloatNear(1, 1e-6)));
  Json wide = options;
  wide["jitter"] = 0.5;  // 1 is within twice that of 2.95
  EXPECT_NEAR(Choose(wide, {1, 3, 2.95, -9}).weights[1], Sigmoid(1.95), 1e-6);
  EXPECT_THAT(Refusal({{"experts", 4}, {"jitter", 0.1}}), HasSubstr("jitter: of score \"sparse_mixer\""));
  EXPECT_THAT(Refusal({{"experts", 4}, {"score", "sparse_mixer"}, {"correction", true}}),
              HasSubstr("without groups and correction"));
}

TEST(ExpertRouter, SigmoidsAreOfEachLogitByItself) {
  const Chosen chosen =
      Choose({{"top_k", 2}, {"score", "sigmoid"}, {"normalize", false}, {"scale", 2.5}}, {-1, 0.5, 0, -2});
  EXPECT_THAT(chosen.experts, ElementsAre(1, 2));
  EXPECT_THAT(chosen.weights, ElementsAre(FloatNear(2.5 * Sigmoid(0.5), 1e-6), FloatNear(2.5 * 0.5, 1e-6)));
}

TEST(ExpertRouter, ACorrectionDecidesWhoIsChosenAndNotWhatItCounts) {
  const Chosen chosen =
      Choose({{"score", "sigmoid"}, {"correction", true}, {"normalize", false}}, {2, 1, 0}, {0, 0, 0.5});
  EXPECT_THAT(chosen.experts, ElementsAre(2));
  EXPECT_THAT(chosen.weights, ElementsAre(FloatNear(0.5, 1e-6)));
}

TEST(ExpertRouter, OnlyTheBestGroupsAreChosenFrom) {
  // The best expert, number 0, stands in a group whose second is bad.
  const std::vector<float> logits = {3, -9, 2, 2, 1, 1};
  const Json two = {{"top_k", 2}, {"score", "sigmoid"}, {"groups", 3}, {"top_groups", 1}};
  EXPECT_THAT(Choose(two, logits).experts, ElementsAre(2, 3));
  Json best = two;
  best["group_score"] = "max";
  EXPECT_THAT(Choose(best, logits).experts, ElementsAre(0, 1));
}

TEST(ExpertRouter, ExpertsOfOtherGroupsCount0UnlessGroupsAreStrict) {
  Json options = {{"top_k", 2}, {"score", "sigmoid"}, {"groups", 2}, {"top_groups", 1}, {"correction", true}};
  const std::vector<float> logits = {-9, -9, 3, 0}, correction = {-1, -1, 0, -0.75};
  EXPECT_THAT(Choose(options, logits, correction).experts, ElementsAre(2, 0));
  options["strict_groups"] = true;
  EXPECT_THAT(Choose(options, logits, correction).experts, ElementsAre(2, 3));
}

TEST(ExpertRouter, OptionsBeyondTheirLimitsAreRefused) {
  EXPECT_THAT(Refusal({{"experts", 4}, {"top_k", 5}}), HasSubstr("ffn: top_k: 5 is above 4"));
  EXPECT_THAT(Refusal({{"experts", 4}, {"groups", 3}}), HasSubstr("4 experts are not divisible by 3"));
  EXPECT_THAT(Refusal({{"experts", 4}, {"top_k", 3}, {"groups", 2}, {"top_groups", 1}}),
              HasSubstr("top_k: 3 is above the 2 experts of top_groups"));
  EXPECT_THAT(Refusal({{"experts", 4}, {"score", "max"}}), HasSubstr("score"));
}

TEST(ExpertRouter, ACorrectionOfLogitsIsAddedBeforeTheirSigmoids) {
  const Json options = {{"top_k", 1}, {"score", "sigmoid"}, {"correction", true}, {"normalize", false}};
  Json of_logits = options;
  of_logits["correction_of"] = "logits";
  // Sigmoids of 9 and 5 are next to each other; the logits are not.
  EXPECT_THAT(Choose(options, {9, 5}, {0, 1}).experts, ElementsAre(1));
  const Chosen chosen = Choose(of_logits, {9, 5}, {0, 1});
  EXPECT_THAT(chosen.experts, ElementsAre(0));
  EXPECT_THAT(chosen.weights, ElementsAre(FloatNear(Sigmoid(9), 1e-6)));
  EXPECT_THAT(Choose(of_logits, {9, 5}, {0, 4.5}).experts, ElementsAre(1));
}

}  // namespace
}  // namespace heed
