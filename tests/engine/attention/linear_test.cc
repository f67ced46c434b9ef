// How `linear` cuts long texts; what a row gets is linear_scan_test's and the contract's.
#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

// A head so wide that a stage takes few rows.
Layer Wide(Place place) { return Layer({"linear", "{}", place, 256, 1}, Precision::kF32); }

TEST(Linear, ALongTextIsStagesOfRowsAndTheSameBits) {
  const Layer layer = Wide(Place::kDecoder);
  const int64_t n = 6500;
  Passage whole(layer, n), chunks(layer, n);
  const auto stages = whole.Plan(*layer.attention().Start());
  EXPECT_EQ(stages.size(), 2);
  for (const AttentionStage& stage : stages) {
    EXPECT_EQ(stage.tasks, 1);
    EXPECT_LE(stage.cost, kTaskCost);
  }
  whole.Extend(*layer.attention().Start(), 0, n);
  chunks.ExtendBy(*layer.attention().Start(), 0, n, 4 * kGrid);
  EXPECT_EQ(FirstDifference(whole.out(), chunks.out()), -1);
}

TEST(Linear, AnEncodersRowsAttendInBlocksOfTheirOwn) {
  const Layer layer = Wide(Place::kEncoder);
  const int64_t n = 3000;
  const auto stages = Passage(layer, n).Plan(*layer.attention().Start());
  ASSERT_EQ(stages.size(), 2);
  EXPECT_EQ(stages[0].tasks, 1);
  EXPECT_EQ(stages[1].tasks, 3);
  const Passage whole = Whole(layer, n);
  Passage backwards(layer, n);
  backwards.Extend(*layer.attention().Start(), 0, n, true);
  EXPECT_EQ(FirstDifference(whole.out(), backwards.out()), -1);
}

}  // namespace
}  // namespace heed
