#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/recurrence.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include "engine/ops/recurrence.h"
#include "engine/ops/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

using D = hn::CappedTag<float, 16>;
using V = hn::VFromD<D>;
constexpr int64_t kLanes = hn::MaxLanes(D());

// body.Run<vectors>(column, count) for columns in turn: four vectors at a time while there are so many.
template <class Body>
HWY_INLINE void ForColumns(int64_t columns, const Body& body) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= columns; c += 4 * kLanes) body.template Run<4>(c, All());
  for (; c + kLanes <= columns; c += kLanes) body.template Run<1>(c, All());
  if (c < columns) body.template Run<1>(c, First{static_cast<size_t>(columns - c)});
}

// All rows for some columns, so that the part of the state that they change stays near.
struct FadingColumns {
  const FadingRows& rows;
  const Matrix<float> state, x;

  template <int kVectors, class Count>
  HWY_INLINE void Run(int64_t column, Count count) const {
    const D d;
    for (int64_t t = 0; t < x.rows; ++t) {
      const V fading = hn::Set(d, *rows.fadings.row(t)), share = hn::Set(d, *rows.shares.row(t));
      const V skip = hn::Set(d, rows.skip);
      const float *keys = rows.keys.row(t), *queries = rows.queries.row(t);
      float* to = x.row(t) + column;
      V value[kVectors], sum[kVectors];
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) {
        const V own = Load(d, to + i * kLanes, count);
        value[i] = hn::Mul(share, own);
        sum[i] = hn::Mul(skip, own);
      }
      for (int64_t f = 0; f < state.rows; ++f) {
        const V key = hn::Set(d, keys[f]), query = hn::Set(d, queries[f]);
        float* row = state.row(f) + column;
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) {
          const V faded = hn::Mul(fading, Load(d, row + i * kLanes, count));
          const V updated = hn::MulAdd(key, value[i], faded);
          Store(d, updated, row + i * kLanes, count);
          sum[i] = hn::MulAdd(query, updated, sum[i]);
        }
      }
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) Store(d, sum[i], to + i * kLanes, count);
    }
  }
};

void FadingScan(const FadingRows& rows, Matrix<float> state, Matrix<float> x) {
  ForColumns(state.cols, FadingColumns{rows, state, x});
}

// kEach: the state's rows fade each by its own.
template <bool kEach>
struct DeltaColumns {
  const DeltaRows& rows;
  const Matrix<float> state, v;

  template <int kVectors, class Count>
  HWY_INLINE void Run(int64_t column, Count count) const {
    const D d;
    for (int64_t t = 0; t < v.rows; ++t) {
      const float *keys = rows.keys.row(t), *queries = rows.queries.row(t), *fadings = rows.fadings.row(t);
      const V fading = hn::Set(d, kEach ? 1.0f : *fadings),
              beta = hn::Set(d, rows.factor * *rows.betas.row(t));
      float* to = v.row(t) + column;
      V held[kVectors], change[kVectors], sum[kVectors];
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) held[i] = sum[i] = hn::Zero(d);
      for (int64_t f = 0; f < state.rows; ++f) {
        const V key = hn::Set(d, kEach ? keys[f] * fadings[f] : keys[f]);
        const float* row = state.row(f) + column;
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i)
          held[i] = hn::MulAdd(key, Load(d, row + i * kLanes, count), held[i]);
      }
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i)
        change[i] = hn::Mul(beta, hn::NegMulAdd(fading, held[i], Load(d, to + i * kLanes, count)));
      for (int64_t f = 0; f < state.rows; ++f) {
        const V key = hn::Set(d, keys[f]), query = hn::Set(d, queries[f]);
        const V own = kEach ? hn::Set(d, fadings[f]) : fading;
        float* row = state.row(f) + column;
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) {
          const V faded = hn::Mul(own, Load(d, row + i * kLanes, count));
          const V updated = hn::MulAdd(key, change[i], faded);
          Store(d, updated, row + i * kLanes, count);
          sum[i] = hn::MulAdd(query, updated, sum[i]);
        }
      }
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) Store(d, sum[i], to + i * kLanes, count);
    }
  }
};

void DeltaScan(const DeltaRows& rows, Matrix<float> state, Matrix<float> v) {
  if (rows.fadings.cols == 1) return ForColumns(state.cols, DeltaColumns<false>{rows, state, v});
  ForColumns(state.cols, DeltaColumns<true>{rows, state, v});
}

void ChannelScan(const ChannelRows& rows, Matrix<float> state, Matrix<float> x) {
  const D d;
  ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
    const V skip = Load(d, rows.skips + i, count);
    for (int64_t t = 0; t < x.rows; ++t) {
      const V step = Load(d, rows.steps.row(t) + i, count), own = Load(d, x.row(t) + i, count);
      const V value = hn::Mul(step, own);
      const float *inputs = rows.inputs.row(t), *outputs = rows.outputs.row(t);
      V sum = hn::Mul(skip, own);
      for (int64_t n = 0; n < state.rows; ++n) {
        float* at = state.row(n) + i;
        const V fading = ExpNonPositive(d, hn::Mul(step, Load(d, rows.rates.row(n) + i, count)));
        const V faded = hn::Mul(fading, Load(d, at, count));
        const V updated = hn::MulAdd(hn::Set(d, inputs[n]), value, faded);
        Store(d, updated, at, count);
        sum = hn::MulAdd(hn::Set(d, outputs[n]), updated, sum);
      }
      Store(d, sum, x.row(t) + i, count);
    }
  });
}

void FadingSums(Matrix<const float> fadings, float* state, Matrix<float> x) {
  const D d;
  ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
    V sum = Load(d, state + i, count);
    for (int64_t t = 0; t < x.rows; ++t) {
      sum = hn::MulAdd(Load(d, fadings.row(t) + i, count), sum, Load(d, x.row(t) + i, count));
      Store(d, sum, x.row(t) + i, count);
    }
    Store(d, sum, state + i, count);
  });
}

template <class T>
HWY_INLINE const T* At(const Rows& rows, int64_t t, int64_t i) {
  return static_cast<const T*>(rows.at(t)) + i;
}

// Some columns of all rows.
template <class T, class Count>
HWY_INLINE void WkvColumns(const WkvRows& rows, int64_t i, Count count, Matrix<float> state,
                           const Rows& out) {
  const D d;
  const V one = hn::Set(d, 1.0f), decay = Load(d, rows.decays + i, count),
          bonus = Load(d, rows.bonus + i, count);
  V held[kWkvState];
  for (int64_t s = 0; s < kWkvState; ++s) held[s] = Load(d, state.row(s) + i, count);
  V &k_before = held[0], &v_before = held[1], &r_before = held[2], &a = held[3], &b = held[4],
    &most = held[5];
  for (int64_t t = 0; t < out.rows; ++t) {
    const V k = hn::Add(Load(d, At<T>(rows.k, t, i), count), k_before),
            v = hn::Add(Load(d, At<T>(rows.v, t, i), count), v_before),
            r = hn::Add(Load(d, At<T>(rows.r, t, i), count), r_before);
    k_before = Load(d, At<T>(rows.k_before, t, i), count);
    v_before = Load(d, At<T>(rows.v_before, t, i), count);
    r_before = Load(d, At<T>(rows.r_before, t, i), count);
    const V own = hn::Add(bonus, k), largest = hn::Max(most, own);
    const V past = ExpNonPositive(d, hn::Sub(most, largest)), now = ExpNonPositive(d, hn::Sub(own, largest));
    const V mean = hn::Div(hn::MulAdd(past, a, hn::Mul(now, v)), hn::MulAdd(past, b, now));
    const V gated = hn::Div(mean, hn::Add(one, Exp(d, hn::Neg(r))));
    WithRow(out, t, [&](auto* to) HWY_ATTR { Store(d, gated, to + i, count); });
    const V faded = hn::Add(most, decay), next = hn::Max(faded, k);
    const V stays = ExpNonPositive(d, hn::Sub(faded, next)), comes = ExpNonPositive(d, hn::Sub(k, next));
    a = hn::MulAdd(stays, a, hn::Mul(comes, v));
    b = hn::MulAdd(stays, b, comes);
    most = next;
  }
  for (int64_t s = 0; s < kWkvState; ++s) Store(d, held[s], state.row(s) + i, count);
}

void WkvScan(const WkvRows& rows, Matrix<float> state, const Rows& out) {
  ForVectors(D(), out.cols, [&](int64_t i, auto count) HWY_ATTR {
    if (rows.k.dtype == DType::kBf16) {
      WkvColumns<Bf16>(rows, i, count, state, out);
    } else {
      WkvColumns<float>(rows, i, count, state, out);
    }
  });
}

void AddRowBefore(const Rows& x, const Rows& before, float* state, Activation activation, const Rows& y) {
  const D d;
  ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
    V held = Load(d, state + i, count);
    for (int64_t t = 0; t < x.rows; ++t) {
      V sum = held;
      WithRow(x, t, [&](const auto* from) HWY_ATTR { sum = hn::Add(Load(d, from + i, count), held); });
      WithRow(before, t, [&](const auto* from) HWY_ATTR { held = Load(d, from + i, count); });
      if (activation == Activation::kRelu2) {
        const V above = hn::Max(sum, hn::Zero(d));
        sum = hn::Mul(above, above);
      }
      WithRow(y, t, [&](auto* to) HWY_ATTR { Store(d, sum, to + i, count); });
    }
    Store(d, held, state + i, count);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(FadingScan);
HWY_EXPORT(DeltaScan);
HWY_EXPORT(ChannelScan);
HWY_EXPORT(FadingSums);
HWY_EXPORT(WkvScan);
HWY_EXPORT(AddRowBefore);

void FadingScan(const FadingRows& rows, Matrix<float> state, Matrix<float> x) {
  HWY_DYNAMIC_DISPATCH(FadingScan)(rows, state, x);
}

void DeltaScan(const DeltaRows& rows, Matrix<float> state, Matrix<float> v) {
  HWY_DYNAMIC_DISPATCH(DeltaScan)(rows, state, v);
}

void ChannelScan(const ChannelRows& rows, Matrix<float> state, Matrix<float> x) {
  HWY_DYNAMIC_DISPATCH(ChannelScan)(rows, state, x);
}

void FadingSums(Matrix<const float> fadings, float* state, Matrix<float> x) {
  HWY_DYNAMIC_DISPATCH(FadingSums)(fadings, state, x);
}

void WkvScan(const WkvRows& rows, Matrix<float> state, const Rows& out) {
  HWY_DYNAMIC_DISPATCH(WkvScan)(rows, state, out);
}

void AddRowBefore(const Rows& x, const Rows& before, float* state, Activation activation, const Rows& y) {
  HWY_DYNAMIC_DISPATCH(AddRowBefore)(x, before, state, activation, y);
}

}  // namespace heed
#endif  // HWY_ONCE
