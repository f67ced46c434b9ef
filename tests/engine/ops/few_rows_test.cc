#include "engine/ops/few_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "engine/base/memory.h"
#include "engine/ops/microkernel.h"
#include "gtest/gtest.h"
#include "tests/engine/ops/random.h"

namespace heed {
namespace {

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

// Whether a product by hand, its panel in two pieces, is bit for bit the micro-kernel's.
bool HasTheBits(const Rows& a, const Buffer& panel, int width, bool add) {
  const int64_t ld = width + 16, first = a.cols / 8 * 4;
  const PanelPiece pieces[] = {{panel.as<char>(), first},
                               {panel.as<char>() + first * width * SizeOf(a.dtype), a.cols - first}};
  std::vector<float> by_hand((a.rows + 8) * ld, 1), by_kernel = by_hand;
  MultiplyFewRows({a, pieces, by_hand.data(), add, width, ld});
  MicroKernel::Get({.a = a.dtype,
                    .m = RoundRows(static_cast<int>(a.rows)),
                    .n = width,
                    .k = static_cast<int>(a.cols),
                    .lda = a.stride,
                    .ldb = width,
                    .ldc = ld,
                    .add = add})
      ->Run(a.data, panel.as<void>(), by_kernel.data());
  return std::memcmp(by_hand.data(), by_kernel.data(), a.rows * ld * sizeof(float)) == 0;
}

TEST(FewRows, HaveTheMicroKernelsBits) {
  int held = 0;
  for (DType dtype : {DType::kF32, DType::kBf16, DType::kU8}) {
    for (int64_t k : {4, 64, 100, 300, 1000}) {
      const int64_t stride = k + 12;
      const Buffer numbers = RandomNumbers(dtype, (kFewRows + 8) * stride, 1);
      const Buffer panel = RandomNumbers(dtype, k * 64, 2);
      for (int64_t rows = 1; rows <= kFewRows; ++rows) {
        const Rows a{dtype, const_cast<void*>(numbers.as<void>()), rows, k, stride};
        if (!CanMultiplyFewRows(a)) continue;
        ++held;
        for (int width : {64, 32}) {
          for (bool add : {false, true}) {
            ASSERT_TRUE(HasTheBits(a, panel, width, add))
                << Name(dtype) << ", " << rows << " x " << k << " x " << width << (add ? ", added" : "");
          }
        }
      }
    }
  }
  const bool any = std::ranges::any_of(std::array{DType::kF32, DType::kBf16, DType::kU8}, [](DType dtype) {
    return CanMultiplyFewRows({dtype, nullptr, 1, 64, 64});
  });
  EXPECT_EQ(held > 0, any);
}

TEST(FewRows, AreNotThoseThatEndWithinAPairOrAreMany) {
  EXPECT_FALSE(CanMultiplyFewRows({DType::kF32, nullptr, kFewRows + 1, 64, 64}));
  EXPECT_FALSE(CanMultiplyFewRows({DType::kBf16, nullptr, 1, 63, 64}));
  EXPECT_FALSE(CanMultiplyFewRows({DType::kU8, nullptr, 1, 62, 64}));
}

TEST(FewRows, CountAsACall) {
  const Buffer a = RandomNumbers(DType::kF32, 64, 1), panel = RandomNumbers(DType::kF32, 64 * 64, 2);
  const Rows row{DType::kF32, const_cast<void*>(a.as<void>()), 1, 64, 64};
  if (!CanMultiplyFewRows(row)) GTEST_SKIP() << "no such kernel here";
  float sums[64];
  const PanelPiece whole{panel.as<void>(), 64};
  const int64_t before = MicroKernel::Calls();
  MultiplyFewRows({row, {&whole, 1}, sums});
  EXPECT_EQ(MicroKernel::Calls() - before, 1);
}

}  // namespace
}  // namespace heed
