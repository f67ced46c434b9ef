#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/outer.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include <algorithm>

#include "engine/ops/outer.h"
#include "engine/ops/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

// A run of columns with one number of c at a time.
void AddOuter(const float* a, int64_t n, const float* c, int64_t begin, int64_t end, float* y) {
  const hn::CappedTag<float, 16> d;
  for (int64_t j = begin, run; j < end; j += run) {
    const int64_t first = j % n;
    run = std::min(n - first, end - j);
    const auto factor = hn::Set(d, c[j / n]);
    float* to = y + (j - begin);
    ForVectors(d, run, [&](int64_t i, auto count) HWY_ATTR {
      Store(d, hn::MulAdd(Load(d, a + first + i, count), factor, Load(d, to + i, count)), to + i, count);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(AddOuter);

void AddOuter(const float* a, int64_t n, const float* c, int64_t begin, int64_t end, float* y) {
  HWY_DYNAMIC_DISPATCH(AddOuter)(a, n, c, begin, end, y);
}

}  // namespace heed
#endif  // HWY_ONCE
