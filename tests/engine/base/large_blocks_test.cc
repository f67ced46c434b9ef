#include "engine/base/large_blocks.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace heed {
namespace {

class LargeBlocksKept : public testing::Test {
 protected:
  void SetUp() override { LargeBlocks::Clear(); }
  void TearDown() override { LargeBlocks::Clear(); }
};

TEST(LargeBlocks, AreWholeHugePages) {
  for (const size_t bytes : {size_t{1}, kHugePage, kHugePage + 1, 5 * kHugePage}) {
    const LargeBlock block = LargeBlocks::Take(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data) % kHugePage, 0u);
    EXPECT_EQ(block.bytes % kHugePage, 0u);
    EXPECT_GE(block.bytes, bytes);
    std::fill_n(static_cast<char*>(block.data), bytes, 1);
    LargeBlocks::Return(block);
  }
}

TEST_F(LargeBlocksKept, OneThatCameBackIsHandedOutAgain) {
  const LargeBlock first = LargeBlocks::Take(10 * kHugePage);
  LargeBlocks::Return(first);
  EXPECT_EQ(LargeBlocks::KeptBytes(), first.bytes);
  const LargeBlock second = LargeBlocks::Take(9 * kHugePage);
  EXPECT_EQ(second.data, first.data);
  EXPECT_EQ(LargeBlocks::KeptBytes(), 0u);
  LargeBlocks::Return(second);
}

TEST_F(LargeBlocksKept, AMuchLargerOneIsLeftForWhoNeedsIt) {
  LargeBlocks::Return(LargeBlocks::Take(10 * kHugePage));
  const LargeBlock small = LargeBlocks::Take(5 * kHugePage);
  EXPECT_EQ(small.bytes, 5 * kHugePage);
  EXPECT_EQ(LargeBlocks::KeptBytes(), 10 * kHugePage);
  LargeBlocks::Return(small);
}

TEST_F(LargeBlocksKept, TheSmallestThatIsLargeEnoughComesFirst) {
  const LargeBlock large = LargeBlocks::Take(10 * kHugePage), small = LargeBlocks::Take(9 * kHugePage);
  LargeBlocks::Return(small);
  LargeBlocks::Return(large);
  const LargeBlock again = LargeBlocks::Take(8 * kHugePage);
  EXPECT_EQ(again.data, small.data);
  LargeBlocks::Return(again);
}

TEST_F(LargeBlocksKept, NoMoreThanTheLimitIsKeptAndTheOldestGoes) {
  const size_t half = LargeBlocks::kKeepBytes / 2;
  const LargeBlock oldest = LargeBlocks::Take(half), old = LargeBlocks::Take(half);
  LargeBlocks::Return(oldest);
  LargeBlocks::Return(old);
  EXPECT_EQ(LargeBlocks::KeptBytes(), 2 * half);
  LargeBlocks::Return(LargeBlocks::Take(kHugePage));
  EXPECT_EQ(LargeBlocks::KeptBytes(), half + kHugePage);
  const LargeBlock left = LargeBlocks::Take(half);
  EXPECT_EQ(left.data, old.data);
  LargeBlocks::Return(left);
}

// What of this process the kernel may take, in bytes.
size_t Offered() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::string word;
  while (rollup >> word && word != "LazyFree:") continue;
  size_t kib = 0;
  EXPECT_TRUE(rollup >> kib);
  return kib << 10;
}

TEST_F(LargeBlocksKept, TheKernelMayTakeWhatLiesWhileMuchElseCameBack) {
  const LargeBlock first = LargeBlocks::Take(5 * kHugePage);
  const LargeBlock second = LargeBlocks::Take(LargeBlocks::kWarmBytes);
  std::memset(first.data, 1, first.bytes);
  LargeBlocks::Return(first);
  EXPECT_EQ(Offered(), 0u);
  LargeBlocks::Return(second);
  EXPECT_GE(Offered(), first.bytes);
}

TEST(LargeBlocks, MayComeAndGoInManyThreads) {
  std::vector<std::thread> threads;
  for (char t = 1; t <= 4; ++t) {
    threads.emplace_back([t] {
      for (int round = 0; round < 50; ++round) {
        const size_t bytes = (1 + round % 3) * kHugePage;
        const LargeBlock block = LargeBlocks::Take(bytes);
        std::fill_n(static_cast<char*>(block.data), bytes, t);
        const auto* data = static_cast<const char*>(block.data);
        EXPECT_TRUE(std::all_of(data, data + bytes, [t](char c) { return c == t; }));
        LargeBlocks::Return(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace heed
