// The performer where exponents are large, against its definition, which fits into a double; what it refuses.
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

AttentionExample Example(const std::string& options, Place place = Place::kDecoder) {
  return {"performer", options, place};
}

// Exponents of some hundreds, where exp() of a float ends: later keys outweigh all before them by e^100 and
// more.
TEST(Performer, StaysInTheNumbersRange) {
  const Layer layer(Example(R"({"kernel": "softmax", "num_features": 24})"), Precision::kF32);
  Passage passage(layer, 300), steps(layer, 300);
  for (Passage* one : {&passage, &steps}) {
    for (int p : {0, 1}) {
      for (int64_t r = 0; r < 300; ++r) {
        for (int64_t c = 0; c < 32; ++c)
          one->product(p).Set(r, c,
                              one->product(p).At(r, c) * (p == 1 ? 0.02f * static_cast<float>(r) : 1.0f));
      }
    }
  }
  passage.Extend(*layer.attention().Start(), 0, 300);
  steps.ExtendBy(*layer.attention().Start(), 0, 300, 1);
  for (const Passage* one : {&passage, &steps}) ExpectDefinition(*one, {0, 64, 130, 299}, {.bounds = 20});
}

// All of such a row's features are below e^-100.
TEST(Performer, ARowFarFromAllFeaturesIsANumber) {
  const Layer layer(Example(R"({"kernel": "softmax", "num_features": 24})"), Precision::kF32);
  Passage passage(layer, 130);
  for (int64_t c = 0; c < 32; ++c) {
    for (int p : {0, 1}) passage.product(p).Set(5, c, 60 * passage.product(p).At(5, c));
  }
  passage.Extend(*layer.attention().Start(), 0, 130);
  for (int64_t i : {0, 4, 5, 6, 129}) {
    for (int64_t c = 0; c < 32; ++c) EXPECT_TRUE(std::isfinite(passage.out().At(i, c))) << "row " << i;
  }
}

// With heads enough for all threads, and so many features that a stage takes few rows.
TEST(Performer, AHeadsRowsAreStagesWhereTheyWouldBeALongTask) {
  const Layer layer({"performer", R"({"kernel": "softmax", "num_features": 4096})", Place::kDecoder, 128, 16},
                    Precision::kF32);
  const auto stages = Passage(layer, 3000).Plan(*layer.attention().Start());
  ASSERT_EQ(stages.size(), 2);
  for (const AttentionStage& stage : stages) {
    EXPECT_EQ(stage.tasks, 16);
    EXPECT_LE(stage.cost, kTaskCost);
  }
}

TEST(Performer, RefusesWhatCannotBe) {
  const Layer layer(Example(R"({"kernel": "relu", "num_features": 24})"), Precision::kF32);
  const auto weights = Weights::Of({});
  ExpectRefused(
      layer, WeightScope(*weights),
      {{Place::kDecoder, R"({"num_features": 24})", {"kernel is missing"}},
       {Place::kDecoder, R"({"kernel": "cosine", "num_features": 24})", {"kernel", "cosine", "relu"}},
       {Place::kDecoder, R"({"kernel": "relu"})", {"num_features is missing"}},
       {Place::kDecoder, R"({"kernel": "relu", "num_features": 0})", {"num_features", "0", "below 1"}},
       {Place::kDecoder, R"({"kernel": "relu", "num_features": 9, "eps": 2})", {"eps", "2", "above 1"}},
       {Place::kDecoder, R"({"kernel": "relu", "num_features": 9})", {"q.weight"}}});
}

}  // namespace
}  // namespace heed
