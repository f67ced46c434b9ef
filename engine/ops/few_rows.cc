#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/few_rows.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include <algorithm>
#include <cstring>

#include "absl/log/check.h"
#include "engine/ops/few_rows.h"
#include "engine/ops/microkernel.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A step along K is 4 bytes of A and of each of the panel's outputs: one number of K in f32, two in bf16,
// four in int8.
constexpr int64_t kStepBytes = 4;
constexpr int64_t kStretchSteps = 64;  // at most 16 KiB of the panel
// How far ahead of itself one row reads: what arrives while a line is waited for. Twice as far is slower.
constexpr int64_t kAheadBytes = 4096;

// Vectors of whatever type go about as floats: these are broadcast straight from memory, and the compiler
// keeps them in registers.
using D = hn::ScalableTag<float>;
using V = hn::VFromD<D>;

struct F32 {
  using Sum = float;
  static V MultiplyAdd(V a, V b, V sum) { return hn::MulAdd(a, b, sum); }
};

#if HWY_NATIVE_DOT_BF16
struct PairsOfBf16 {
  using Sum = float;
  static V MultiplyAdd(V a, V b, V sum) {
    const hn::Repartition<hwy::bfloat16_t, D> pairs;
    V unused = hn::Zero(D());
    return hn::ReorderWidenMulAccumulate(D(), hn::BitCast(pairs, a), hn::BitCast(pairs, b), sum, unused);
  }
};
#endif

#if HWY_TARGET <= HWY_AVX3_ZEN4
struct QuadruplesOfInt8 {
  using Sum = int32_t;
  static V MultiplyAdd(V a, V b, V sum) {
    asm("vpdpbusd %2, %1, %0"
        : "+v"(sum.raw)
        : "v"(a.raw), "v"(b.raw));  // GCC spills the sums of its intrinsic
    return sum;
  }
};
#endif

// Into L2, not L1, where the stretch at hand is.
HWY_INLINE void FetchToL2(const char* line) { __builtin_prefetch(line, 0, 2); }

// Some steps of the product, and memory to fetch meanwhile: `lines` cache lines a step from `ahead` on.
struct Stretch {
  const char* a;
  int64_t a_stride;
  const char* panel;
  int64_t steps;
  const char* ahead;
  int lines;
};

// kRows rows of a stretch, their sums in registers meanwhile.
template <class Type, int kWidth, int kRows>
HWY_INLINE void MultiplyRows(Stretch p, float* sums) {
  const D d;
  constexpr int kLanes = hn::MaxLanes(D()), kVectors = kWidth / kLanes;
  V sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Load(d, sums + r * kWidth + v * kLanes);
  }
  for (int64_t step = 0; step < p.steps; ++step, p.a += kStepBytes, p.panel += kWidth * kStepBytes) {
    for (int line = 0; line < p.lines; ++line, p.ahead += 64) FetchToL2(p.ahead);
    V b[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v)
      b[v] = hn::LoadU(d, reinterpret_cast<const float*>(p.panel) + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float number;
      std::memcpy(&number, p.a + r * p.a_stride, sizeof(number));
      const V broadcast = hn::Set(d, number);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sum[r][v] = Type::MultiplyAdd(broadcast, b[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) hn::Store(sum[r][v], d, sums + r * kWidth + v * kLanes);
  }
}

template <class Type, int kWidth>
HWY_INLINE void MultiplySomeRows(int64_t rows, const Stretch& stretch, float* sums) {
  switch (rows) {
    case 1:
      return MultiplyRows<Type, kWidth, 1>(stretch, sums);
    case 2:
      return MultiplyRows<Type, kWidth, 2>(stretch, sums);
    case 3:
      return MultiplyRows<Type, kWidth, 3>(stretch, sums);
    case 4:
      return MultiplyRows<Type, kWidth, 4>(stretch, sums);
    case 5:
      return MultiplyRows<Type, kWidth, 5>(stretch, sums);
    default:
      return MultiplyRows<Type, kWidth, 6>(stretch, sums);
  }
}

// Rows by groups as equal as can be, of which the largest fills the registers. Each group fetches its part of
// the next stretch: while a stretch is read again from L1, the hardware would fetch nothing. A lone group
// reads on and on, and the hardware ahead of it, but over the end of the panel, where its sums are waited
// for; fetching more costs four rows a quarter of their speed. One row waits for nothing but memory, and
// gains by fetching all.
struct Groups {
  explicit Groups(int64_t rows) : count((rows + 5) / 6), size((rows + count - 1) / count) {}
  int lines(bool last) const { return count == 1 ? last : count < 4 ? 2 : 1; }
  const int64_t count, size;
};

// A piece from end to end, while as many bytes are fetched from `ahead` on.
template <class Type, int kWidth>
HWY_INLINE void SumUpAtOnce(const PanelPiece& piece, const char* ahead, const Rows& a, float* sums) {
  const int64_t bytes = SizeOf(a.dtype);
  MultiplySomeRows<Type, kWidth>(a.rows,
                                 {.a = static_cast<const char*>(a.data),
                                  .a_stride = a.stride * bytes,
                                  .panel = static_cast<const char*>(piece.data),
                                  .steps = piece.k * bytes / kStepBytes,
                                  .ahead = ahead,
                                  .lines = kWidth * kStepBytes / 64},
                                 sums);
}

template <class Type, int kWidth>
HWY_INLINE void SumUpPiece(const PanelPiece& piece, const Rows& a, float* sums) {
  constexpr int64_t kPanelBytes = kWidth * kStepBytes;
  const int64_t bytes = SizeOf(a.dtype), steps = piece.k * bytes / kStepBytes;
  const auto* panel = static_cast<const char*>(piece.data);
  const Groups groups(a.rows);
  const auto* ahead = static_cast<const char*>(piece.ahead);
  if (a.rows == 1 && ahead == nullptr) ahead = panel + kAheadBytes;
  if (groups.count == 1 && ahead != nullptr) return SumUpAtOnce<Type, kWidth>(piece, ahead, a, sums);
  for (int64_t step = 0; step < steps; step += kStretchSteps) {
    Stretch stretch{.a = static_cast<const char*>(a.data) + step * kStepBytes,
                    .a_stride = a.stride * bytes,
                    .panel = panel + step * kPanelBytes,
                    .steps = std::min(kStretchSteps, steps - step),
                    .ahead = panel + std::min(step + kStretchSteps, steps) * kPanelBytes,
                    .lines = groups.lines(step + kStretchSteps >= steps)};
    for (int64_t row = 0; row < a.rows; row += groups.size) {
      MultiplySomeRows<Type, kWidth>(std::min(groups.size, a.rows - row), stretch, sums + row * kWidth);
      stretch.a += groups.size * stretch.a_stride;
      stretch.ahead += stretch.steps * stretch.lines * 64;
    }
  }
}

template <class Type, int kWidth>
void MultiplyPanel(const FewRows& p) {
  HWY_ALIGN float sums[kFewRows * kWidth];
  std::memset(sums, 0, p.a.rows * kWidth * sizeof(float));
  int64_t k = 0;
  for (const PanelPiece& piece : p.panel) {
    SumUpPiece<Type, kWidth>(piece, p.a.Cols(k, piece.k), sums);
    k += piece.k;
  }
  using T = typename Type::Sum;
  const hn::Rebind<T, D> d;
  for (int64_t row = 0; row < p.a.rows; ++row) {
    T* out = static_cast<T*>(p.sums) + row * p.ld;
    for (int64_t i = 0; i < kWidth; i += hn::Lanes(d)) {
      const auto sum = hn::BitCast(d, hn::Load(D(), sums + row * kWidth + i));
      hn::StoreU(p.add ? hn::Add(hn::LoadU(d, out + i), sum) : sum, d, out + i);
    }
  }
}

template <class Type>
void Multiply(const FewRows& p) {
  p.width == 64 ? MultiplyPanel<Type, 64>(p) : MultiplyPanel<Type, 32>(p);
}

// The kernel for a type of A on this target, null if there is none.
FewRowsKernel* Kernel(DType a) {
#if HWY_TARGET <= HWY_AVX3
  if (a == DType::kF32) return Multiply<F32>;
#endif
#if HWY_NATIVE_DOT_BF16
  if (a == DType::kBf16) return Multiply<PairsOfBf16>;
#endif
#if HWY_TARGET <= HWY_AVX3_ZEN4
  if (a == DType::kU8) return Multiply<QuadruplesOfInt8>;
#endif
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
namespace {

HWY_EXPORT(Kernel);

FewRowsKernel* Choose(DType a) {
  // Tiles sum bf16 in an order of their own, and are faster than vectors in both types.
  if (!HasMicroKernel(a) || (a != DType::kF32 && MicroKernelUsesTiles())) return nullptr;
  return HWY_DYNAMIC_DISPATCH(Kernel)(a);
}

FewRowsKernel* KernelHere(DType a) {
  static FewRowsKernel* const f32 = Choose(DType::kF32);
  static FewRowsKernel* const bf16 = Choose(DType::kBf16);
  static FewRowsKernel* const u8 = Choose(DType::kU8);
  return a == DType::kF32 ? f32 : a == DType::kBf16 ? bf16 : u8;
}

}  // namespace

bool CanMultiplyFewRows(const Rows& a) {
  return a.rows <= kFewRows && a.cols * SizeOf(a.dtype) % 4 == 0 && KernelHere(a.dtype) != nullptr;
}

void MultiplyFewRows(const FewRows& product) {
  DCHECK(CanMultiplyFewRows(product.a) && (product.width == 64 || product.width == 32));
  MicroKernel::CountCall(product.a.rows * product.a.cols * product.width);
  KernelHere(product.a.dtype)(product);
}

}  // namespace heed
#endif  // HWY_ONCE
