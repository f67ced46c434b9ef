// How `linear` cuts long texts; what a row gets is linear_scan_test's and the contract's.
#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

Layer Heads(int heads, int64_t head_dim, Place place) {
  return Layer({"linear", "{}", place, heads * head_dim, heads}, Precision::kF32);
}

std::vector<int64_t> Tasks(const Layer& layer, int64_t n) {
  std::vector<int64_t> tasks;
  for (const AttentionStage& stage : Passage(layer, n).Plan(*layer.attention().Start())) {
    EXPECT_LE(stage.cost, kTaskCost);
    tasks.push_back(stage.tasks);
  }
  return tasks;
}

// Sums of the blocks, the memory's way through them, the blocks' rows; what they have handed on goes.
TEST(Linear, ALonePromptKeepsSixteenThreadsAtWork) {
  const std::vector<int64_t> one = {16, 1, 16, 4, 1, 4, 1}, four = {16, 4, 16, 16, 4, 16, 8, 4, 8, 1},
                             sixteen = {16};
  EXPECT_EQ(Tasks(Heads(1, 64, Place::kDecoder), 20 * kGrid), one);
  EXPECT_EQ(Tasks(Heads(4, 16, Place::kDecoder), 9 * kGrid + 1), four);
  EXPECT_EQ(Tasks(Heads(16, 8, Place::kDecoder), 9 * kGrid + 1), sixteen) << "heads enough";
  EXPECT_EQ(Tasks(Heads(4, 16, Place::kDecoder), kGrid), std::vector<int64_t>{4}) << "one block";
}

TEST(Linear, BlocksAtTheSameTimeAreTheSameBitsAsOneAfterAnother) {
  for (int heads : {1, 3, 4, 16}) {
    const Layer layer = Heads(heads, 16, Place::kDecoder);
    for (int64_t first : {int64_t{0}, kGrid, int64_t{100}}) {
      Passage together(layer, 2500), one_by_one(layer, 2500);
      const auto run = layer.attention().Start(), other = layer.attention().Start();
      if (first > 0) together.Extend(*run, 0, first);
      if (first > 0) one_by_one.Extend(*other, 0, first);
      together.Extend(*run, first, 2500, /*backwards=*/true);
      const int64_t grid = (first + kGrid - 1) / kGrid * kGrid;
      if (first < grid) one_by_one.Extend(*other, first, grid);
      one_by_one.ExtendBy(*other, grid, 2500, kGrid);
      EXPECT_EQ(FirstDifference(together.out(), one_by_one.out()), -1) << heads << " heads, from " << first;
    }
  }
}

TEST(Linear, WhatBlocksHandOnIsWhatIsDeclaredOfAPassAndGoesWithIt) {
  for (Place place : {Place::kDecoder, Place::kEncoder}) {
    for (int heads : {1, 4}) {
      const Layer layer = Heads(heads, 16, place);
      const int64_t state = layer.attention().StateBytes(20 * kGrid), pass = layer.attention().PassBytes();
      const auto run = layer.attention().Start();
      Passage prompt(layer, 20 * kGrid);
      const int64_t before = LastingMemory::Bytes();
      EXPECT_EQ(MostWhileAttending(prompt, *run), pass) << heads << " heads";
      EXPECT_EQ(LastingMemory::Bytes(), before) << heads << " heads";
      EXPECT_EQ(Measured(*run), state) << heads << " heads";
    }
  }
  EXPECT_EQ(Heads(16, 16, Place::kDecoder).attention().PassBytes(), 0);
}

TEST(Linear, AnEncodersRowsAttendInBlocksOfTheirOwn) {
  const Layer layer = Heads(1, 256, Place::kEncoder);
  EXPECT_EQ(Tasks(layer, 3000), (std::vector<int64_t>{16, 1, 8, 1, 1, 3}));
  EXPECT_EQ(Tasks(layer, 100), std::vector<int64_t>{1});
  const Passage whole = Whole(layer, 3000);
  Passage backwards(layer, 3000);
  backwards.Extend(*layer.attention().Start(), 0, 3000, true);
  EXPECT_EQ(FirstDifference(whole.out(), backwards.out()), -1);
}

}  // namespace
}  // namespace heed
