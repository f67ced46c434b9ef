// What a synthesizer refuses, and what its state holds.
#include <string>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"

namespace heed {
namespace {

using testing::HasSubstr;

absl::Status Refusal(const std::string& options, Place place = Place::kDecoder) {
  const Layer full({"full", "{}", place}, Precision::kF32);
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
  const Layer layer({"synthesizer", options, Place::kDecoder, 16, 2}, Precision::kF32);
  EXPECT_LE(DifferenceOfSteps(layer, 9000, 8980, 4), 1e-5);
}

TEST(Synthesizer, IsItsDefinitionWhereTheRankIsAboveThePositions) {
  const Layer layer(
      {"synthesizer", R"({"form": "factorized_random", "n_max": 40, "rank": 300})", Place::kEncoder, 8, 1},
      Precision::kF32);
  ExpectDefinition(Whole(layer, 40), AllRows(40), {.bounds = 2});
}

TEST(Synthesizer, RemembersValuesAlone) {
  const Layer full({"full", "{}", Place::kDecoder, 32, 1}, Precision::kF32);
  const Layer random(
      {"synthesizer", R"({"form": "factorized_random", "n_max": 256, "rank": 2})", Place::kDecoder, 32, 1},
      Precision::kF32);
  const int64_t counter = sizeof(int64_t);
  EXPECT_EQ(2 * (random.attention().StateBytes(256) - counter), full.attention().StateBytes(256) - counter);
  EXPECT_EQ(random.attention().max_tokens(), 256);
}

}  // namespace
}  // namespace heed
