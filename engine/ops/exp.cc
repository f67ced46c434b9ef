#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/exp.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include "engine/ops/exp.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void Exp(double* x, int64_t n) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Exp(d, hn::LoadU(d, x + i)), d, x + i);
  if (i < n) hn::StoreN(hn::Exp(d, hn::LoadN(d, x + i, n - i)), d, x + i, n - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(Exp);

void Exp(double* x, int64_t n) { HWY_DYNAMIC_DISPATCH(Exp)(x, n); }

}  // namespace heed
#endif  // HWY_ONCE
