#include "engine/ops/few_rows.h"

#include <cstring>
#include <vector>

#include "engine/base/memory.h"
#include "engine/ops/microkernel.h"
#include "gtest/gtest.h"
#include "tests/engine/ops/random.h"

namespace heed {
namespace {

constexpr int64_t kWidth = 64;

// `count` numbers of a type: floats, or any bytes for integers.
Buffer RandomNumbers(DType dtype, int64_t count, uint64_t seed) {
  Random random(seed);
  Buffer numbers(count * SizeOf(dtype));
  for (int64_t i = 0; i < count; ++i) {
    if (dtype == DType::kF32) numbers.as<float>()[i] = random.Normal();
    if (dtype == DType::kBf16) numbers.as<Bf16>()[i] = ToBf16(random.Normal());
    if (dtype == DType::kU8) numbers.as<uint8_t>()[i] = static_cast<uint8_t>(random.Uniform() * 256);
  }
  return numbers;
}

TEST(FewRows, HaveTheMicroKernelsBits) {
  for (DType dtype : {DType::kF32, DType::kBf16, DType::kU8}) {
    for (int64_t k : {4, 64, 100, 300, 1000}) {
      const int64_t stride = k + 12;
      const Buffer numbers = RandomNumbers(dtype, (kFewRows + 8) * stride, 1);
      const Buffer panel = RandomNumbers(dtype, k * kWidth, 2);
      for (int64_t rows = 1; rows <= kFewRows; ++rows) {
        const Rows a{dtype, const_cast<void*>(numbers.as<void>()), rows, k, stride};
        if (!CanMultiplyFewRows(a)) continue;
        for (bool add : {false, true}) {
          std::vector<float> by_hand((rows + 8) * kWidth, 1), by_kernel = by_hand;
          MultiplyFewRows({a, panel.as<void>(), by_hand.data(), add});
          MicroKernel::Get({.a = dtype,
                            .m = RoundRows(static_cast<int>(rows)),
                            .n = kWidth,
                            .k = static_cast<int>(k),
                            .lda = stride,
                            .ldb = kWidth,
                            .ldc = kWidth,
                            .add = add})
              ->Run(a.data, panel.as<void>(), by_kernel.data());
          ASSERT_EQ(std::memcmp(by_hand.data(), by_kernel.data(), rows * kWidth * sizeof(float)), 0)
              << Name(dtype) << ", " << rows << " x " << k << (add ? ", added" : "");
        }
      }
    }
  }
}

TEST(FewRows, AreNotThoseThatEndWithinAPairOrAreMany) {
  EXPECT_FALSE(CanMultiplyFewRows({DType::kF32, nullptr, kFewRows + 1, 64, 64}));
  EXPECT_FALSE(CanMultiplyFewRows({DType::kBf16, nullptr, 1, 63, 64}));
  EXPECT_FALSE(CanMultiplyFewRows({DType::kU8, nullptr, 1, 62, 64}));
}

TEST(FewRows, CountAsACall) {
  const Buffer a = RandomNumbers(DType::kF32, 64, 1), panel = RandomNumbers(DType::kF32, 64 * kWidth, 2);
  const Rows row{DType::kF32, const_cast<void*>(a.as<void>()), 1, 64, 64};
  if (!CanMultiplyFewRows(row)) GTEST_SKIP() << "no such kernel here";
  float sums[kWidth];
  const int64_t before = MicroKernel::Calls();
  MultiplyFewRows({row, panel.as<void>(), sums});
  EXPECT_EQ(MicroKernel::Calls() - before, 1);
}

}  // namespace
}  // namespace heed
