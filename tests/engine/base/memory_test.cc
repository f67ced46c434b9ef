#include "engine/base/memory.h"

#include <algorithm>
#include <functional>
#include <new>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using ::testing::Each;

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlignment == 0; }

bool Full(const Buffer& buffer, size_t bytes, char of) {
  return std::all_of(buffer.as<char>(), buffer.as<char>() + bytes, [of](char c) { return c == of; });
}

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

TEST(Buffer, LastingOnesLieApartAndOutliveEachOther) {
  std::vector<Buffer> buffers;
  for (int i = 0; i < 100; ++i) {
    buffers.push_back(Buffer::Lasting(1 << (i % 23)));
    EXPECT_TRUE(Aligned(buffers.back().as<char>()));
    std::fill_n(buffers.back().as<char>(), buffers.back().size(), static_cast<char>(i));
  }
  const std::vector<Buffer> copies(buffers.begin() + 50, buffers.end());
  buffers.erase(buffers.begin(), buffers.begin() + 50);
  for (int i = 0; i < 50; ++i) {
    for (const Buffer& buffer : {std::cref(buffers[i]), std::cref(copies[i])}) {
      EXPECT_TRUE(Full(buffer, buffer.size(), static_cast<char>(50 + i)));
    }
  }
}

TEST(Buffer, LastingOnesMayComeAndGoInManyThreads) {
  std::vector<std::thread> threads;
  for (char t = 1; t <= 4; ++t) {
    threads.emplace_back([t] {
      for (int round = 0; round < 20; ++round) {
        std::vector<Buffer> buffers;
        for (int i = 0; i < 50; ++i) {
          buffers.push_back(Buffer::Lasting(1 << (10 + i % 11)));
          std::fill_n(buffers.back().as<char>(), 1000, t);
        }
        for (const Buffer& buffer : buffers) EXPECT_TRUE(Full(buffer, 1000, t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // whose allocators end the process instead
TEST(Buffer, LastingOnesAreCountedWhereverTheyLie) {
  const int64_t before = LastingMemory::Bytes();
  LastingMemory::MeasureAnew();
  {
    const Buffer small = Buffer::Lasting(1000), large = Buffer::Lasting(3 << 20), other(500), copy(small);
    EXPECT_EQ(LastingMemory::Bytes() - before, 2000 + (3 << 20));
    const Buffer moved = Buffer::Lasting(70);
  }
  EXPECT_EQ(LastingMemory::Bytes(), before);
  EXPECT_EQ(LastingMemory::Most() - before, 2070 + (3 << 20));
  LastingMemory::MeasureAnew();
  EXPECT_EQ(LastingMemory::Most(), before);
}

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
