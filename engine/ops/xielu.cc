#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/xielu.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include "engine/ops/vector_math-inl.h"
#include "engine/ops/xielu.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<float>;

void Xielu(const XieluNumbers& of, Matrix<const float> x, const Rows& y) {
  const D d;
  using V = hn::VFromD<D>;
  const V above = hn::Set(d, of.above), below = hn::Set(d, of.below), slope = hn::Set(d, of.slope),
          most = hn::Set(d, of.most), one = hn::Set(d, 1.0f);
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(y, r, [&](auto* out) {
      ForVectors(d, x.cols, [&](int64_t i, auto count) {
        const V v = Load(d, x.row(r) + i, count);
        const V power = Exp(d, hn::IfThenElse(hn::Gt(v, most), most, v));
        const V curve = hn::IfThenElse(hn::Gt(v, hn::Zero(d)), hn::Mul(above, hn::Mul(v, v)),
                                       hn::Mul(below, hn::Sub(hn::Sub(power, one), v)));
        Store(d, hn::MulAdd(slope, v, curve), out + i, count);
      });
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(Xielu);

void Xielu(const XieluNumbers& of, Matrix<const float> x, const Rows& y) {
  HWY_DYNAMIC_DISPATCH(Xielu)(of, x, y);
}

}  // namespace heed
#endif  // HWY_ONCE
