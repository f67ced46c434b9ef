// A Nyströmformer's rows around its landmarks, of long texts and in bf16, against the definition; what it
// refuses, and how it grows.
#include <string>
#include <tuple>
#include <vector>

#include "engine/ops/microkernel.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/definitions.h"
#include "tests/engine/attention/refusals.h"

namespace heed {
namespace {

void ExpectTheDefinition(const Layer& layer, int64_t n, double bounds = 1) {
  ExpectDefinition(Whole(layer, n), AllRows(n), {.bounds = bounds});
}

TEST(Nystrom, IsItsDefinition) {
  for (const AttentionExample& example : ExamplesOf("nystrom")) {
    const Layer layer(example, Precision::kF32);
    const int64_t m = layer.options()["num_landmarks"];
    for (int64_t n : {int64_t{1}, int64_t{20}, m, m + 1, 2 * m + 3}) ExpectTheDefinition(layer, n);
  }
}

// Several parts of rows, and several rows of a landmark.
TEST(Nystrom, IsItsDefinitionOfLongTexts) {
  const Layer layer(ExamplesOf("nystrom")[1], Precision::kF32);
  for (int64_t n : {640, 1025, 3000}) ExpectTheDefinition(layer, n);
}

// A kernel that is longer than a task's rows, and than the text.
TEST(Nystrom, IsItsDefinitionWhereTheKernelIsLong) {
  const Layer layer({"nystrom", R"({"num_landmarks": 8, "conv_kernel": 301})", Place::kEncoder, 40, 2},
                    Precision::kF32);
  for (int64_t n : {1, 7, 150, 700}) ExpectTheDefinition(layer, n);
}

TEST(Nystrom, IsItsDefinitionWhereATextHasFewerRowsThanLandmarksAndNoKernel) {
  const Layer layer({"nystrom", R"({"num_landmarks": 8192, "conv_kernel": 0})", Place::kEncoder, 40, 2},
                    Precision::kF32);
  for (int64_t n : {1, 300}) ExpectTheDefinition(layer, n);
}

TEST(Nystrom, IsItsDefinitionInBf16) {
  const Precision precision = Supported(Precision::kBf16);  // f32 where the CPU has no bf16
  for (const AttentionExample& example : ExamplesOf("nystrom")) {
    const Layer layer(example, precision);
    const int64_t m = layer.options()["num_landmarks"];
    for (int64_t n : {int64_t{1}, m, 2 * m + 3}) ExpectTheDefinition(layer, n, 500);
  }
}

// Landmarks that are all alike have weights without an inverse, and the pseudo-inverse gives every row the
// mean of all values.
TEST(Nystrom, OfRowsThatAreAllAlikeIsTheMeanOfTheirValues) {
  const Layer layer(ExamplesOf("nystrom")[0], Precision::kF32);
  Passage passage(layer, 300);
  for (int p : {0, 1}) {
    for (int64_t r = 1; r < 300; ++r) {
      for (int64_t c = 0; c < 32; ++c)
        passage.product(p).Set(r, c, static_cast<float>(passage.product(p).At(0, c)));
    }
  }
  passage.Extend(*layer.attention().Start(), 0, 300);
  for (int64_t c = 0; c < 32; ++c) {
    double mean = 0;
    for (int64_t r = 0; r < 300; ++r) mean += passage.product(2).At(r, c) / 300;
    for (int64_t r = 0; r < 300; ++r) ASSERT_NEAR(passage.out().At(r, c), mean, 1e-4) << r << ", " << c;
  }
}

// Beside what landmarks do among themselves, a row costs the same however long the text is.
TEST(Nystrom, WorkGrowsAsTheRows) {
  for (const AttentionExample& example : ExamplesOf("nystrom")) {
    const Layer layer(example, Precision::kF32);
    const auto work = [&](int64_t n) { return MultiplyAddsOf(layer, n); };
    EXPECT_EQ(work(6144) - work(3072), work(3072 + 6144) - work(6144)) << example.options;
  }
}

// Of each part of the rows, a row for each landmark.
TEST(Nystrom, StateGrowsByPartsOfTheRows) {
  const Layer layer(ExamplesOf("nystrom")[0], Precision::kF32);
  const auto bytes = [&](int64_t n) { return layer.attention().StateBytes(n); };
  EXPECT_EQ(bytes(33), bytes(1024));
  EXPECT_EQ(bytes(1025) - bytes(1024), 4 * 32 * (16 + 2) * 4);
  EXPECT_EQ(bytes(101 * 1024) - bytes(1024), 100 * (bytes(1025) - bytes(1024)));
}

// Rows that landmarks read are packed for them, part by part: a task's own.
TEST(Nystrom, StateAndScratchAreAllThatRowsTake) {
  const Layer layer({"nystrom", R"({"num_landmarks": 8})", Place::kEncoder, 256, 1}, Precision::kF32);
  Passage passage(layer, 3000);
  const int64_t taken = MostWhileAttending(passage, *layer.attention().Start());
  EXPECT_LE(taken, layer.attention().StateBytes(3000) + layer.attention().ScratchBytes());
}

// An inverse that is no task's work is done step by step, and no step's rows are.
TEST(Nystrom, ManyLandmarksAreManySmallTasks) {
  const auto plan = [](const char* options, int64_t n) {
    const Layer layer({"nystrom", options, Place::kEncoder, 8, 1}, Precision::kF32);
    return Passage(layer, n).Plan(*layer.attention().Start());
  };
  EXPECT_EQ(plan(R"({"num_landmarks": 300})", 2000).size(), 4);  // means, what they read, the inverse, rows
  for (const auto& [options, n, tasks] : {std::tuple(R"({"num_landmarks": 1024})", 2000, 8),
                                          std::tuple(R"({"num_landmarks": 4096})", 5000, 64)}) {
    const std::vector<AttentionStage> stages = plan(options, n);
    EXPECT_EQ(stages.size(), 3 + 1 + 25 + 2);
    for (const AttentionStage& stage : stages) EXPECT_LE(stage.cost, kTaskCost);
    EXPECT_EQ(stages[5].tasks, tasks) << options;
  }
}

TEST(Nystrom, RefusesWhatCannotBe) {
  const Layer layer(ExamplesOf("nystrom")[0], Precision::kF32);
  const auto weights = Weights::Of({});
  constexpr const char* kGood = R"({"num_landmarks": 32})";
  ExpectRefused(layer, WeightScope(*weights),
                {{Place::kDecoder, kGood, {"layers[0].attention", "encoders only", "later rows"}},
                 {Place::kCross, kGood, {"self-attention only"}},
                 {Place::kEncoder, "{}", {"num_landmarks is missing"}},
                 {Place::kEncoder, R"({"num_landmarks": 0})", {"num_landmarks", "0", "below 1"}},
                 {Place::kEncoder, R"({"num_landmarks": 8193})", {"num_landmarks", "8193", "above 8192"}},
                 {Place::kEncoder, R"({"num_landmarks": 8, "conv_kernel": 4})", {"conv_kernel", "4", "even"}},
                 {Place::kEncoder, R"({"num_landmarks": 8, "conv_kernel": 4097})", {"4097", "above 4095"}},
                 {Place::kEncoder, kGood, {"q.weight"}}});
  ExpectRefused(layer, layer.scope(),
                {{Place::kEncoder, R"({"num_landmarks": 8, "conv_kernel": 5})", {"conv.weight"}}});
}

}  // namespace
}  // namespace heed
