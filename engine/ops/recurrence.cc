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

struct DeltaColumns {
  const DeltaRows& rows;
  const Matrix<float> state, v;

  template <int kVectors, class Count>
  HWY_INLINE void Run(int64_t column, Count count) const {
    const D d;
    for (int64_t t = 0; t < v.rows; ++t) {
      const V fading = hn::Set(d, *rows.fadings.row(t)), beta = hn::Set(d, rows.factor * *rows.betas.row(t));
      const float *keys = rows.keys.row(t), *queries = rows.queries.row(t);
      float* to = v.row(t) + column;
      V held[kVectors], change[kVectors], sum[kVectors];
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) held[i] = sum[i] = hn::Zero(d);
      for (int64_t f = 0; f < state.rows; ++f) {
        const V key = hn::Set(d, keys[f]);
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
        float* row = state.row(f) + column;
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) {
          const V faded = hn::Mul(fading, Load(d, row + i * kLanes, count));
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
  ForColumns(state.cols, DeltaColumns{rows, state, v});
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

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(FadingScan);
HWY_EXPORT(DeltaScan);
HWY_EXPORT(ChannelScan);
HWY_EXPORT(FadingSums);

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

}  // namespace heed
#endif  // HWY_ONCE
