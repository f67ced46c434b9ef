// Halving finds the k-th largest number, what is not below it is collected, and that is put in order: passes
// over vectors without a branch that depends on the numbers (32 of 256: 0.3 us; with a heap 4).
#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/top_k.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include <algorithm>
#include <bit>
#include <limits>

#include "absl/log/check.h"
#include "engine/ops/top_k.h"
#include "engine/ops/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

using D = hn::CappedTag<float, 16>;
using Mask = hn::MFromD<D>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kFew = 128;  // from here on sorting is faster than counting

HWY_INLINE Mask Live(Mask mask, All) { return mask; }
HWY_INLINE Mask Live(Mask mask, First count) { return hn::And(mask, hn::FirstN(D(), count.n)); }

// Floats in their order as whole numbers, and back.
int32_t Key(float x) {
  const auto bits = std::bit_cast<int32_t>(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
float Number(int32_t key) { return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff)); }

int64_t CountFrom(float least, const float* x, int64_t n) {
  const D d;
  const auto bound = hn::Set(d, least);
  int64_t sum = 0;
  ForVectors(d, n, [&](int64_t i, auto count) HWY_ATTR {
    sum += hn::CountTrue(d, Live(hn::Ge(Load(d, x + i, count), bound), count));
  });
  return sum;
}

// The largest number that at least k are not below, or one that exactly k are not below; NaN if there is
// none.
float Threshold(const float* x, int64_t n, int64_t k) {
  if (CountFrom(-kInfinity, x, n) < k) return std::numeric_limits<float>::quiet_NaN();
  int64_t low = Key(-kInfinity), high = int64_t{Key(kInfinity)} + 1;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    const int64_t count = CountFrom(Number(static_cast<int32_t>(middle)), x, n);
    if (count == k) return Number(static_cast<int32_t>(middle));
    (count > k ? low : high) = middle;
  }
  return Number(static_cast<int32_t>(low));
}

// Numbers of a row in the order in which they stand there, at most `most`; room for a vector more.
struct Found {
  float* values;
  int32_t* indices;
  int64_t most;
  int64_t count = 0;
};

template <class Test>
void Collect(const float* x, int64_t n, Found& found, Test test) {
  const D d;
  const hn::RebindToSigned<D> di;
  ForVectors(d, n, [&](int64_t i, auto count) HWY_ATTR {
    if (found.count >= found.most) return;
    const auto v = Load(d, x + i, count);
    const Mask mask = Live(test(v), count);
    hn::CompressStore(v, mask, d, found.values + found.count);
    found.count += hn::CompressStore(hn::Iota(di, static_cast<int32_t>(i)), hn::RebindMask(di, mask), di,
                                     found.indices + found.count);
  });
  found.count = std::min(found.count, found.most);
}

void CollectBest(const float* x, int64_t n, Found& found) {
  const D d;
  const float threshold = Threshold(x, n, found.most);
  const auto bound = hn::Set(d, threshold);
  if (threshold != threshold) {
    Collect(x, n, found, [&](auto v) HWY_ATTR { return hn::Eq(v, v); });
    const int64_t numbers = found.count;
    Collect(x, n, found, [&](auto v) HWY_ATTR { return hn::IsNaN(v); });
    std::fill(found.values + numbers, found.values + found.count, -kInfinity);
    return;
  }
  Collect(x, n, found, [&](auto v) HWY_ATTR { return hn::Gt(v, bound); });
  Collect(x, n, found, [&](auto v) HWY_ATTR { return hn::Eq(v, bound); });
}

// How many come before the i-th: those that are larger, and equal ones found before it.
int64_t Rank(const Found& found, int64_t i) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto value = hn::Set(d, found.values[i]);
  const auto place = hn::Set(di, static_cast<int32_t>(i));
  int64_t rank = 0;
  ForVectors(d, found.count, [&](int64_t j, auto count) HWY_ATTR {
    const auto other = Load(d, found.values + j, count);
    const auto earlier = hn::RebindMask(d, hn::Lt(hn::Iota(di, static_cast<int32_t>(j)), place));
    const Mask before = hn::Or(hn::Gt(other, value), hn::And(hn::Eq(other, value), earlier));
    rank += hn::CountTrue(d, Live(before, count));
  });
  return rank;
}

void Sort(const Found& found, Ranked* best) {
  for (int64_t i = 0; i < found.count; ++i) best[i] = {found.values[i], static_cast<int32_t>(i)};
  std::sort(best, best + found.count, [](const Ranked& a, const Ranked& b) {
    return a.value > b.value || (a.value == b.value && a.index < b.index);
  });
  for (int64_t i = 0; i < found.count; ++i) best[i].index = found.indices[best[i].index];
}

// Of equal numbers, those at the threshold are collected after all larger ones: the order found is that of
// the indices wherever values are equal.
void TopK(const float* x, int64_t n, int64_t k, Scratch& scratch, Ranked* best) {
  const ScratchFrame frame(scratch);
  Found found{scratch.Take<float>(k + kTopKRoom), scratch.Take<int32_t>(k + kTopKRoom), k};
  CollectBest(x, n, found);
  if (k > kFew) return Sort(found, best);
  for (int64_t i = 0; i < k; ++i) best[Rank(found, i)] = {found.values[i], found.indices[i]};
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(TopK);

void TopK(const float* x, int64_t n, int64_t k, Scratch& scratch, Ranked* best) {
  DCHECK(k >= 1 && k <= n);
  HWY_DYNAMIC_DISPATCH(TopK)(x, n, k, scratch, best);
}

}  // namespace heed
#endif  // HWY_ONCE
