#include "engine/base/memory.h"

#include <algorithm>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using ::testing::Each;

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlignment == 0; }

TEST(Buffer, IsAlignedAndItsCopiesAreDeep) {
  for (size_t bytes : {1u, 63u, 64u, 5000u, 9u << 20}) {
    Buffer a = Buffer::Zeros(bytes);
    EXPECT_TRUE(Aligned(a.as<char>()));
    EXPECT_TRUE(std::all_of(a.as<char>(), a.as<char>() + bytes, [](char c) { return c == 0; }));
    Buffer b = a;
    b.as<char>()[bytes - 1] = 7;
    EXPECT_EQ(a.as<char>()[bytes - 1], 0);
    a = b;
    EXPECT_EQ(a.as<char>()[bytes - 1], 7);
    EXPECT_EQ(a.size(), bytes);
  }
}

TEST(Buffer, WhatWasMovedFromIsEmpty) {
  Buffer a(100);
  const char* data = a.as<char>();
  Buffer b = std::move(a);
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(b.as<char>(), data);
  a = std::move(b);
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(a.size(), 100u);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // whose allocators end the process instead
TEST(Buffer, TooMuchIsBadAlloc) { EXPECT_THROW(Buffer(size_t{1} << 60), std::bad_alloc); }
#endif

TEST(Scratch, PiecesAreAlignedAndApart) {
  Scratch scratch;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::span<char>> pieces;
    for (size_t bytes : {1u, 100u, 70000u, 3u, 1000000u}) {
      pieces.emplace_back(scratch.Take<char>(bytes), bytes);
      EXPECT_TRUE(Aligned(pieces.back().data()));
      std::ranges::fill(pieces.back(), static_cast<char>(pieces.size()));
    }
    for (size_t i = 0; i < pieces.size(); ++i) EXPECT_THAT(pieces[i], Each(static_cast<char>(i + 1)));
    scratch.Reset();
  }
}

TEST(Scratch, AfterTheFirstTaskItAllocatesNoMore) {
  Scratch scratch;
  auto task = [&] {
    for (int i = 0; i < 100; ++i) scratch.Take<float>(3000);
    scratch.Reset();
  };
  task();
  const size_t bytes = scratch.bytes();
  EXPECT_GE(bytes, 100 * 3000 * sizeof(float));
  for (int i = 0; i < 10; ++i) task();
  EXPECT_EQ(scratch.bytes(), bytes);
}

}  // namespace
}  // namespace heed
