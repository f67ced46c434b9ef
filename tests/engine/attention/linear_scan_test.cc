// The linear scan against the definition, written out in double, and what it does against what it should
// cost.
#include "engine/attention/linear_scan.h"

#include <cmath>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/ops/gemm.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/scan.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/random_rows.h"

namespace heed {
namespace {

std::vector<DType> Types() {
  return HasMicroKernel(DType::kBf16) ? std::vector{DType::kF32, DType::kBf16} : std::vector{DType::kF32};
}
double Tolerance(DType type) { return type == DType::kF32 ? 1e-5 : 3e-2; }

// The relu of all pairwise sums of neighbours, and a constant: more features than numbers.
void Neighbours(const Rows& x, const Rows& features) {
  const auto number = [](const Rows& rows, int64_t r, int64_t c) {
    return rows.dtype == DType::kF32 ? *static_cast<float*>(rows.at(r, c))
                                     : ToFloat(*static_cast<Bf16*>(rows.at(r, c)));
  };
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t f = 0; f < features.cols; ++f) {
      const float y = std::max(0.0f, number(x, r, f % x.cols) + number(x, r, (f / 2) % x.cols)) + 0.01f;
      if (features.dtype == DType::kF32) {
        *static_cast<float*>(features.at(r, f)) = y;
      } else {
        *static_cast<Bf16*>(features.at(r, f)) = ToBf16(y);
      }
    }
  }
}

// One head of one sequence.
struct World {
  World(DType type, int64_t n, int64_t head_dim, int64_t features)
      : n(n),
        q(OwnedRows::Random(type, n, head_dim, 1)),
        k(OwnedRows::Random(type, n, head_dim, 2)),
        v(OwnedRows::Random(type, n, head_dim, 3)),
        out(type, n, head_dim),
        scan(type, {.head_dim = head_dim,
                    .features = features,
                    .feature_map = [](const Rows& x, const Rows& y, float*,
                                      Scratch&) { x.cols == y.cols ? EluPlusOne(x, y) : Neighbours(x, y); },
                    .eps = 1e-6}),
        memory(scan.NewMemory()) {}

  void Extend(int64_t begin, int64_t end) {
    const auto part = [&](const OwnedRows& all) { return all.rows().Slice(begin, end - begin); };
    scan.Extend(part(q), part(k), part(v), memory, part(out), scratch);
    scratch.Reset();
  }
  void ExtendBy(int64_t rows) {
    for (int64_t begin = 0; begin < n; begin += rows) Extend(begin, std::min(n, begin + rows));
  }

  // The largest difference from sum_j (phi(q_i) . phi(k_j)) v_j / (sum_j phi(q_i) . phi(k_j) + eps).
  double Error(bool causal) const {
    const int64_t f = scan.options().features;
    OwnedRows fq(q.rows().dtype, n, f), fk(q.rows().dtype, n, f);
    Scratch maps;
    scan.options().feature_map(q.rows(), fq.rows(), nullptr, maps);
    scan.options().feature_map(k.rows(), fk.rows(), nullptr, maps);
    double largest = 0;
    for (int64_t i = 0; i < n; ++i) {
      std::vector<double> sums(v.rows().cols);
      double norm = 0;
      for (int64_t j = 0; j < (causal ? i + 1 : n); ++j) {
        double weight = 0;
        for (int64_t t = 0; t < f; ++t) weight += fq.At(i, t) * fk.At(j, t);
        norm += weight;
        for (size_t t = 0; t < sums.size(); ++t) sums[t] += weight * v.At(j, t);
      }
      for (size_t t = 0; t < sums.size(); ++t)
        largest = std::max(largest, std::abs(sums[t] / (norm + 1e-6) - out.At(i, t)));
    }
    return largest;
  }

  int64_t n;
  OwnedRows q, k, v, out;
  LinearScan scan;
  ScanMemory memory;
  Scratch scratch;
};

TEST(LinearScan, IsItsDefinitionForAnyLengthAndWidth) {
  for (DType type : Types()) {
    for (int64_t n : {1, 2, 31, 64, 65, 127, 128, 129, 300}) {
      for (int64_t head_dim : {1, 8, 17, 64}) {
        World world(type, n, head_dim, head_dim);
        world.Extend(0, n);
        EXPECT_LE(world.Error(true), Tolerance(type)) << n << " rows of " << head_dim;
      }
    }
  }
}

TEST(LinearScan, FeaturesMayOutnumberTheNumbers) {
  for (DType type : Types()) {
    for (int64_t features : {9, 40, 256}) {
      World world(type, 200, 16, features);
      world.Extend(0, 200);
      EXPECT_LE(world.Error(true), Tolerance(type)) << features;
    }
  }
}

TEST(LinearScan, WhateverPiecesItComesIn) {
  for (DType type : Types()) {
    World whole(type, 300, 24, 24);
    whole.Extend(0, 300);
    for (int64_t rows : {1, 2, 7, 100, 128, 256}) {
      World world(type, 300, 24, 24);
      world.ExtendBy(rows);
      EXPECT_LE(world.Error(true), Tolerance(type)) << rows << " at a time";
      if (rows % kGrid != 0) continue;
      EXPECT_EQ(FirstDifference(world.out, whole.out), -1) << rows << " at a time";
    }
  }
}

TEST(LinearScan, EveryRowAttendsToAllThatIsRemembered) {
  for (DType type : Types()) {
    for (int64_t n : {1, 100, 128, 333}) {
      World world(type, n, 16, 16);
      world.scan.Remember(world.k.rows(), world.v.rows(), world.memory, world.scratch);
      world.scan.Attend(world.q.rows(), world.memory, world.out.rows(), world.scratch);
      EXPECT_LE(world.Error(false), Tolerance(type)) << n;
      EXPECT_EQ(world.memory.tokens(), n);
    }
  }
}

TEST(LinearScan, TheFirstRowReachesTheLast) {
  World world(DType::kF32, 1000, 16, 16), other(DType::kF32, 1000, 16, 16);
  for (int64_t c = 0; c < 16; ++c) other.v.Set(0, c, 100);
  world.Extend(0, 1000);
  other.Extend(0, 1000);
  for (int64_t r : {0, 1, 127, 128, 999}) {
    EXPECT_GT(std::abs(world.out.At(r, 0) - other.out.At(r, 0)), 1e-3) << r;
  }
}

TEST(LinearScan, RowsWithoutAPastHaveNoNaN) {
  World world(DType::kF32, 1, 8, 8);
  world.scan.Attend(world.q.rows(), world.memory, world.out.rows(), world.scratch);
  for (int64_t c = 0; c < 8; ++c) EXPECT_EQ(world.out.At(0, c), 0);
}

// A block of causal rows: what it reads of the memory, what it adds to it, and two products for each tile of
// half a block. A step is one product by hand.
TEST(LinearScan, CallsTheMicroKernelAsOftenAsItsBlocksNeed) {
  const auto calls = [](auto&& work) {
    const int64_t before = MicroKernel::Calls();
    work();
    return MicroKernel::Calls() - before;
  };
  World world(DType::kF32, 1000, 32, 32);
  EXPECT_EQ(calls([&] { world.Extend(0, 512); }), 4 * (2 + 4));
  EXPECT_EQ(calls([&] { world.Extend(512, 512 + 64); }), 2 + 2);
  EXPECT_EQ(calls([&] { world.Extend(576, 577); }), 1);
  ScanMemory memory = world.scan.NewMemory();
  EXPECT_EQ(calls([&] { world.scan.Remember(world.k.rows(), world.v.rows(), memory, world.scratch); }), 8);
  EXPECT_EQ(calls([&] { world.scan.Attend(world.q.rows(), memory, world.out.rows(), world.scratch); }), 8);
}

TEST(LinearScan, AMillionTokensLaterTheSumsAreStillSums) {
  const int64_t n = 1024;
  World world(DType::kF32, n, 16, 16);
  for (int i = 0; i < 1024; ++i) {
    world.scan.Remember(world.k.rows(), world.v.rows(), world.memory, world.scratch);
    world.scratch.Reset();
  }
  EXPECT_EQ(world.memory.tokens(), 1 << 20);
  world.scan.Attend(world.q.rows(), world.memory, world.out.rows(), world.scratch);
  EXPECT_LE(world.Error(false), 1e-4) << "the same means as of one round";
}

}  // namespace
}  // namespace heed
