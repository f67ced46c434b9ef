// The work that `bigbird` promises, and the block numbers that it refuses.
#include <algorithm>
#include <map>
#include <vector>

#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/softmax.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

// Behind so many global rows of the model's own, or none.
AttentionExample BigBird(int64_t block, int64_t blocks, int64_t randoms, int64_t front = 0) {
  return Behind(front,
                {"bigbird",
                 Cat(R"({"block_size": )", block, R"(, "num_blocks": )", blocks, R"(, "num_random_blocks": )",
                     randoms, R"(, "form": ")", front > 0 ? "etc" : "itc", R"("})"),
                 Place::kEncoder, 64, 4});
}

// Whole blocks, pieces and panels: nothing is computed that nobody sees, nothing twice, nothing gathered.
TEST(BigBird, ComputesThePairsThatAreSeenAndNoOthers) {
  for (int64_t block : {32, 64, 128}) {
    for (int64_t randoms : {0, 1, 5}) {
      for (int64_t front : {0, 32, 160}) {
        const Layer layer(BigBird(block, 20, randoms, front), Precision::kF32);
        for (int64_t blocks : {1, 2, 3, 4, 5, 13, 20}) {
          const int64_t n = front + blocks * block;
          EXPECT_EQ(static_cast<double>(MultiplyAddsOf(layer, n)), layer.attention().Cost(n, n))
              << blocks << " blocks of " << block << ", " << randoms << " random, behind " << front;
        }
      }
    }
  }
}

// Global rows in front may put every block across the pieces in which keys lie: each run of keys then takes a
// piece more.
TEST(BigBird, BehindAnyNumberOfRowsComputesPiecesThatAreSeenAndNoOthers) {
  constexpr int64_t kBlock = 64, kBlocks = 20, kRuns = 4;
  for (int64_t front : {1, 33, 100}) {
    const Layer layer(BigBird(kBlock, kBlocks, 2, front), Precision::kF32);
    const int64_t n = front + kBlock * kBlocks;
    const double more = static_cast<double>((n + 8 * kBlocks) * (kRuns + 1) * kSoftmaxPiece) * 2 * 64;
    EXPECT_LE(static_cast<double>(MultiplyAddsOf(layer, n)), layer.attention().Cost(n, n) + more) << front;
  }
}

TEST(BigBird, WorkGrowsWithTheLengthNotWithItsSquare) {
  const auto cost = [](int64_t randoms, int64_t blocks) {
    return Layer(BigBird(64, 1000, randoms), Precision::kF32).attention().Cost(64 * blocks, 64 * blocks);
  };
  EXPECT_NEAR(cost(0, 1000) / cost(0, 100), 10, 0.5);
  const auto behind = [](int64_t blocks) {
    const int64_t n = 256 + 64 * blocks;
    return Layer(BigBird(64, 1000, 0, 256), Precision::kF32).attention().Cost(n, n);
  };
  EXPECT_NEAR(behind(1000) / behind(100), 10, 0.5);
  // Five blocks and three more, and two that see all.
  EXPECT_LE(cost(3, 1000), (5 + 3 + 2) * 64 * 64000.0 * 2 * 64);
}

// Small blocks share a task; the rows of large ones are several.
TEST(BigBird, TasksAreOfAHundredRowsOrSo) {
  for (int64_t block : {1, 5, 64, 100, 300}) {
    const int64_t blocks = 6000 / block;
    const Layer layer(BigBird(block, blocks, 2), Precision::kF32);
    const Passage passage(layer, 6000);
    const auto run = layer.attention().Start();
    const std::vector<AttentionStage> stages = passage.Plan(*run);
    EXPECT_GE(stages.back().tasks, 4 * 6000 / 128) << block;
    EXPECT_LE(stages.back().tasks, 4 * (2 + 6000 / 64)) << block;
  }
}

TEST(BigBird, RefusesBlockNumbersThatThereAreNot) {
  const Layer layer(BigBird(4, 12, 2), Precision::kF32);
  for (const auto& [number, limit] : {std::pair{12, "above 11"}, std::pair{-1, "below 0"}}) {
    std::vector<int64_t> plan(4 * 10 * 2, 11);
    plan[(3 * 10 + 9) * 2 + 1] = number;
    const auto weights = Weights::Of({{"random_blocks", {DType::kI64, {4, 10, 2}, plan.data()}}});
    const auto refused = layer.New(layer.options(), WeightScope(*weights));
    ASSERT_FALSE(refused.ok());
    for (const std::string& part :
         {std::string("random_blocks"), Cat(number), std::string("[3, 9, 1]"), std::string(limit)}) {
      EXPECT_THAT(refused.status().message(), testing::HasSubstr(part));
    }
  }
}

// A plan that names near, global and equal blocks is a plan without them.
void ExpectAsWithoutPlan(const AttentionExample& example, const std::vector<int64_t>& plan, int64_t tokens) {
  const Layer none(example, Precision::kF32);
  auto tensors = std::map<std::string, Tensor>();
  const std::vector<float> numbers(64 * 64, 0.5f);
  for (const char* name : {"q.weight", "k.weight", "v.weight"})
    tensors[name] = {DType::kF32, {64, 64}, numbers.data()};
  tensors["random_blocks"] = {DType::kI64, {4, std::ssize(plan) / 24, 6}, plan.data()};
  const auto weights = Weights::Of(tensors);
  Json options = none.options();
  options["num_random_blocks"] = 6;
  const auto drawn = none.New(options, WeightScope(*weights));
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  const Passage expected = Whole(none, tokens);
  Passage passage(none, tokens);
  passage.Extend(*(*drawn)->Start(), 0, tokens);
  EXPECT_EQ(FirstDifference(expected.out(), passage.out()), -1);
  EXPECT_EQ((*drawn)->Cost(tokens, tokens), none.attention().Cost(tokens, tokens));
}

TEST(BigBird, AKeyThatSeveralRulesNameCountsOnce) {
  constexpr int64_t kBlock = 32, kBlocks = 10, kFront = 9;
  std::vector<int64_t> plan, behind;
  for (int64_t head = 0; head < 4; ++head) {
    for (int64_t b = 1; b < kBlocks - 1; ++b) plan.insert(plan.end(), {b, b - 1, kBlocks - 1, b + 1, 0, b});
    for (int64_t b = 0; b < kBlocks; ++b) {
      const int64_t before = std::max<int64_t>(b - 1, 0), after = std::min(b + 1, kBlocks - 1);
      behind.insert(behind.end(), {b, before, after, b, before, b});
    }
  }
  ExpectAsWithoutPlan(BigBird(kBlock, kBlocks, 0), plan, kBlock * kBlocks);
  ExpectAsWithoutPlan(BigBird(kBlock, kBlocks, 0, kFront), behind, kFront + kBlock * kBlocks);
}

}  // namespace
}  // namespace heed
