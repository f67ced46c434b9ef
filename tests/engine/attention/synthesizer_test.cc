// What a synthesizer refuses, and what its state holds.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

using testing::HasSubstr;

absl::Status Refusal(const std::string& options, Place place = Place::kDecoder) {
  const Layer full({"full", "{}", place, 32, 4, QueryKeyValue(32, 32, 32)}, Precision::kF32);
  const auto weights = Weights::Of({});
  return full.New(*ParseJson(options, "options"), WeightScope(*weights)).status();
}

TEST(Synthesizer, RefusesWithTheFieldTheValueAndTheLimit) {
  const struct {
    const char *options, *message;
  } cases[] = {
      {R"({"type": "synthesizer", "n_max": 64})", "form is missing"},
      {R"({"type": "synthesizer", "form": "dense"})", ".n_max"},
      {R"({"type": "synthesizer", "form": "dot_product", "n_max": 64})", "dot_product"},
      {R"({"type": "synthesizer", "form": "dense", "n_max": 64, "rank": 3})", "rank"},
      {R"({"type": "synthesizer", "form": "factorized_random", "n_max": 64})", ".rank"},
      {R"({"type": "synthesizer", "form": "factorized_dense", "n_max": 64, "factors": [8, 9]})", "[8,9]"},
      {R"({"type": "synthesizer", "form": "factorized_dense", "n_max": 64, "factors": [-8, -8]})",
       "n_max 64"},
      {R"({"type": "synthesizer", "form": "mixture", "n_max": 64, "terms": []})", "[]"},
      {R"({"type": "synthesizer", "form": "mixture", "n_max": 64, "terms": ["dense", "dense"]})",
       "different"},
      {R"({"type": "synthesizer", "form": "mixture", "n_max": 64, "terms": ["dence"]})", "dence"},
      {R"({"type": "synthesizer", "form": "mixture", "n_max": 64, "terms": 3})", "3"},
      {R"({"type": "synthesizer", "form": "random", "n_max": 0})", ".n_max"},
  };
  for (const auto& [options, message] : cases) {
    const absl::Status refusal = Refusal(options);
    EXPECT_FALSE(refusal.ok()) << options;
    EXPECT_THAT(refusal.message(), HasSubstr(message)) << options;
    EXPECT_THAT(refusal.message(), HasSubstr("layers[0].attention")) << options;
  }
}

TEST(Synthesizer, HasNoKeysOfAnotherSequence) {
  const absl::Status refusal =
      Refusal(R"({"type": "synthesizer", "form": "random", "n_max": 64})", Place::kCross);
  EXPECT_THAT(refusal.message(), HasSubstr("self-attention only"));
}

// Few rows of many keys attend part by part.
TEST(Synthesizer, StepsOfManyKeysAreTheWhole) {
  const std::string options =
      R"({"form": "mixture", "n_max": 9000, "rank": 2, "terms": ["dot_product", "factorized_random"]})";
  auto tensors = QueryKeyValue(16, 16, 16);
  tensors["mix"] = {2, 2};
  tensors["random1"] = tensors["random2"] = {2, 9000, 2};
  const Layer layer({"synthesizer", options, Place::kDecoder, 16, 2, tensors}, Precision::kF32);
  EXPECT_LE(DifferenceOfSteps(layer, 9000, 8980, 4), 1e-5);
}

// softmax(R1 R2') V
TEST(Synthesizer, IsItsDefinitionWhereTheRankIsAboveThePositions) {
  constexpr int64_t kMost = 40, kRank = 300, kDim = 8;
  const Layer layer(
      {"synthesizer",
       R"({"form": "factorized_random", "n_max": 40, "rank": 300})",
       Place::kEncoder,
       kDim,
       1,
       {{"v.weight", {kDim, kDim}}, {"random1", {1, kMost, kRank}}, {"random2", {1, kMost, kRank}}}},
      Precision::kF32);
  const Passage passage = Whole(layer, kMost);
  for (int64_t i = 0; i < kMost; ++i) {
    std::vector<double> row(kDim), scores;
    double sum = 0;
    for (int64_t j = 0; j < kMost; ++j) {
      double score = 0;
      for (int64_t r = 0; r < kRank; ++r)
        score += layer.tensor("random1")[i * kRank + r] * layer.tensor("random2")[j * kRank + r];
      scores.push_back(score);
    }
    const double largest = *std::ranges::max_element(scores);
    for (int64_t j = 0; j < kMost; ++j) {
      const double p = std::exp(scores[j] - largest);
      sum += p;
      for (int64_t c = 0; c < kDim; ++c) row[c] += p * passage.product(0).At(j, c);
    }
    for (int64_t c = 0; c < kDim; ++c) ASSERT_NEAR(passage.out().At(i, c), row[c] / sum, 1e-4) << i;
  }
}

TEST(Synthesizer, RemembersValuesAlone) {
  const Layer full({"full", "{}", Place::kDecoder, 32, 1, QueryKeyValue(32, 32, 32)}, Precision::kF32);
  const Layer random({"synthesizer",
                      R"({"form": "factorized_random", "n_max": 256, "rank": 2})",
                      Place::kDecoder,
                      32,
                      1,
                      {{"v.weight", {32, 32}}, {"random1", {1, 256, 2}}, {"random2", {1, 256, 2}}}},
                     Precision::kF32);
  const int64_t counter = sizeof(int64_t);
  EXPECT_EQ(2 * (random.attention().StateBytes(256) - counter), full.attention().StateBytes(256) - counter);
  EXPECT_EQ(random.attention().max_tokens(), 256);
}

}  // namespace
}  // namespace heed
