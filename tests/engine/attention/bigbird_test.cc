// The work that `bigbird` promises, and the block numbers that it refuses.
#include <vector>

#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

AttentionExample BigBird(int64_t block, int64_t blocks, int64_t randoms) {
  return {"bigbird",
          Cat(R"({"block_size": )", block, R"(, "num_blocks": )", blocks, R"(, "num_random_blocks": )",
              randoms, "}"),
          Place::kEncoder, 64, 4};
}

// Whole blocks, pieces and panels: nothing is computed that nobody sees, nothing twice, nothing gathered.
TEST(BigBird, ComputesThePairsThatAreSeenAndNoOthers) {
  for (int64_t block : {32, 64, 128}) {
    for (int64_t randoms : {0, 1, 5}) {
      const Layer layer(BigBird(block, 20, randoms), Precision::kF32);
      for (int64_t blocks : {1, 2, 3, 4, 5, 13, 20}) {
        const int64_t n = blocks * block, before = MicroKernel::MultiplyAdds();
        Whole(layer, n);
        EXPECT_EQ(static_cast<double>(MicroKernel::MultiplyAdds() - before), layer.attention().Cost(n, n))
            << blocks << " blocks of " << block << ", " << randoms << " random";
      }
    }
  }
}

TEST(BigBird, WorkGrowsWithTheLengthNotWithItsSquare) {
  const auto cost = [](int64_t randoms, int64_t blocks) {
    return Layer(BigBird(64, 1000, randoms), Precision::kF32).attention().Cost(64 * blocks, 64 * blocks);
  };
  EXPECT_NEAR(cost(0, 1000) / cost(0, 100), 10, 0.5);
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
TEST(BigBird, AKeyThatSeveralRulesNameCountsOnce) {
  constexpr int64_t kBlock = 32, kBlocks = 10, kTokens = kBlock * kBlocks;
  const Layer none(BigBird(kBlock, kBlocks, 0), Precision::kF32);
  auto tensors = std::map<std::string, Tensor>();
  std::vector<int64_t> plan;
  for (int64_t head = 0; head < 4; ++head) {
    for (int64_t b = 1; b < kBlocks - 1; ++b) plan.insert(plan.end(), {b, b - 1, kBlocks - 1, b + 1, 0, b});
  }
  const std::vector<float> numbers(64 * 64, 0.5f);
  for (const char* name : {"q.weight", "k.weight", "v.weight"})
    tensors[name] = {DType::kF32, {64, 64}, numbers.data()};
  tensors["random_blocks"] = {DType::kI64, {4, kBlocks - 2, 6}, plan.data()};
  const auto weights = Weights::Of(tensors);
  Json options = none.options();
  options["num_random_blocks"] = 6;
  const auto drawn = none.New(options, WeightScope(*weights));
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  const Passage expected = Whole(none, kTokens);
  Passage passage(none, kTokens);
  passage.Extend(*(*drawn)->Start(), 0, kTokens);
  EXPECT_EQ(FirstDifference(expected.out(), passage.out()), -1);
  EXPECT_EQ((*drawn)->Cost(kTokens, kTokens), none.attention().Cost(kTokens, kTokens));
}

}  // namespace
}  // namespace heed
