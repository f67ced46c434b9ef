#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/epilogue.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include "engine/ops/activation-inl.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::VFromD<D>;

// A row of sums as what the product is: x w' + b.
struct FloatSums {
  template <class Count>
  HWY_INLINE V operator()(const PanelTile& tile, int64_t row, int64_t i, Count count) const {
    const D d;
    const auto* sums = static_cast<const float*>(tile.sums) + row * epilogue.ld;
    return hn::Add(Load(d, sums + i, count), Load(d, tile.bias + i, count));
  }
  const TileEpilogue& epilogue;
};

// (sum - 128 * the column's weights) * the row's scale * the column's scale + b. The panels are padded to
// whole vectors and more, so these loads need no count.
struct IntSums {
  template <class Count>
  HWY_INLINE V operator()(const PanelTile& tile, int64_t row, int64_t i, Count) const {
    const D d;
    const hn::Rebind<int32_t, D> di;
    const auto* sums = static_cast<const int32_t*>(tile.sums) + row * epilogue.ld;
    const auto whole = hn::ConvertTo(d, hn::Sub(hn::LoadU(di, sums + i), hn::LoadU(di, tile.offsets + i)));
    const auto scale = hn::Mul(hn::Set(d, epilogue.row_scales[row]), hn::LoadU(d, tile.scales + i));
    return hn::MulAdd(whole, scale, hn::LoadU(d, tile.bias + i));
  }
  const TileEpilogue& epilogue;
};

template <class Sums, class F, class Write>
HWY_INLINE void ForTile(const TileEpilogue& e, const Sums& sums, const F& f, const Write& write) {
  const bool gated = e.up.sums != nullptr, clamped = e.activation == Activation::kClampedGate;
  for (int64_t row = 0; row < e.out.rows; ++row) {
    ForVectors(D(), e.out.cols, [&](int64_t i, auto count) {
      V v = f(sums(e.tile, row, i, count));
      if (gated) {
        const V up = sums(e.up, row, i, count);
        v = hn::Mul(v, clamped ? ClampedFactor(D(), up) : up);
      }
      write(v, row, i, count);
    });
  }
}

template <class Sums, class F>
HWY_INLINE void FinishAs(const TileEpilogue& e, const Sums& sums, const F& f) {
  const D d;
  if (e.out.dtype == DType::kBf16) {
    const auto out = e.out.As<Bf16>();
    ForTile(e, sums, f,
            [&](V v, int64_t row, int64_t i, auto count) { Store(d, v, out.row(row) + i, count); });
  } else if (e.add) {
    const auto out = e.out.As<float>();
    ForTile(e, sums, f, [&](V v, int64_t row, int64_t i, auto count) {
      float* to = out.row(row) + i;
      Store(d, hn::Add(Load(d, to, count), v), to, count);
    });
  } else {
    const auto out = e.out.As<float>();
    ForTile(e, sums, f,
            [&](V v, int64_t row, int64_t i, auto count) { Store(d, v, out.row(row) + i, count); });
  }
}

void Finish(const TileEpilogue& e) {
  WithActivation(e.activation, e.out.dtype, D(), [&](auto f) {
    if (e.row_scales != nullptr) {
      FinishAs(e, IntSums{e}, f);
    } else {
      FinishAs(e, FloatSums{e}, f);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(Finish);

void Finish(const TileEpilogue& epilogue) { HWY_DYNAMIC_DISPATCH(Finish)(epilogue); }

}  // namespace heed
#endif  // HWY_ONCE
