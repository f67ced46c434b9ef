#include "engine/ops/microkernel.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/ops/random.h"

namespace heed {
namespace {

TEST(MicroKernel, OneObjectForEqualShapes) {
  MicroKernel::Shape shape{.m = 4, .n = 16, .k = 8, .lda = 8, .ldb = 16, .ldc = 16};
  const MicroKernel* kernel = MicroKernel::Get(shape);
  EXPECT_EQ(MicroKernel::Get(shape), kernel);
  std::thread([&] { EXPECT_EQ(MicroKernel::Get(shape), kernel); }).join();
  shape.add = true;
  EXPECT_NE(MicroKernel::Get(shape), kernel);
}

TEST(MicroKernel, ABatchIsASumAtOffsets) {
  const int m = 3, n = 16, k = 8;
  Random random(1);
  const std::vector<float> a = random.Normals(2 * m * k), b = random.Normals(2 * k * n);
  std::vector<float> c(m * n, 1);
  const MicroKernel::Offsets offsets[] = {{m * k * sizeof(float), 0}, {0, k * n * sizeof(float)}};
  MicroKernel::Get({.m = m, .n = n, .k = k, .batch = 2, .lda = k, .ldb = n, .ldc = n, .add = true})
      ->Run(a.data(), b.data(), offsets, c.data());
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 1;
      for (int t = 0; t < k; ++t) {
        sum += double{a[(m + i) * k + t]} * b[t * n + j] + double{a[i * k + t]} * b[(k + t) * n + j];
      }
      EXPECT_NEAR(c[i * n + j], sum, 1e-5);
    }
  }
}

TEST(MicroKernel, CallsAreCountedOverAllThreads) {
  const MicroKernel* kernel = MicroKernel::Get({.m = 1, .n = 16, .k = 4, .lda = 4, .ldb = 16, .ldc = 16});
  const std::vector<float> a(4), b(4 * 16);
  auto run = [&](int times) {
    std::vector<float> c(16);
    for (int i = 0; i < times; ++i) kernel->Run(a.data(), b.data(), c.data());
  };
  const int64_t before = MicroKernel::Calls();
  std::thread other(run, 5);
  run(3);
  other.join();
  EXPECT_EQ(MicroKernel::Calls() - before, 8);
}

TEST(MicroKernel, RowsAreRoundedUpFromEightOn) {
  EXPECT_EQ(RoundRows(1), 1);
  EXPECT_EQ(RoundRows(7), 7);
  EXPECT_EQ(RoundRows(8), 8);
  EXPECT_EQ(RoundRows(9), 16);
  EXPECT_EQ(RoundRows(192), 192);
}

TEST(MicroKernel, TheIsaHasAName) { EXPECT_NE(MicroKernelIsa(), "unknown"); }

}  // namespace
}  // namespace heed
