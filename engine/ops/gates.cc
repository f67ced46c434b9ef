#include <algorithm>
#include <cmath>

#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/gates.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include "engine/ops/activation-inl.h"
#include "engine/ops/gates.h"
#include "engine/ops/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

using D = hn::CappedTag<float, 16>;
using V = hn::VFromD<D>;

void ConvolveCausal(Matrix<const float> x, Matrix<const float> kernel, const float* bias,
                    Activation activation, Matrix<float> y) {
  const D d;
  const bool silu = activation == Activation::kSilu;
  for (int64_t t = 0; t < y.rows; ++t) {
    ForVectors(d, y.cols, [&](int64_t i, auto count) HWY_ATTR {
      V sum = Load(d, bias + i, count);
      for (int64_t c = 0; c < kernel.rows; ++c)
        sum = hn::MulAdd(Load(d, kernel.row(c) + i, count), Load(d, x.row(t + c) + i, count), sum);
      Store(d, silu ? Silu(d, sum) : sum, y.row(t) + i, count);
    });
  }
}

void Sigmoid(const Rows& x, Matrix<float> y) {
  const D d;
  const V one = hn::Set(d, 1.0f);
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(x, r, [&](const auto* from) HWY_ATTR {
      ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
        const V e = Exp(d, hn::Neg(Load(d, from + i, count)));
        Store(d, hn::Div(one, hn::Add(one, e)), y.row(r) + i, count);
      });
    });
  }
}

// log(1 + x) for x from 0 to 1: 2 artanh(x / (2 + x)), of which the series ends where f32 does.
HWY_INLINE V LogOnePlus(D d, V x) {
  constexpr float kSeries[] = {2.0f, 2.0f / 3, 2.0f / 5, 2.0f / 7, 2.0f / 9, 2.0f / 11, 2.0f / 13, 2.0f / 15};
  const V s = hn::Div(x, hn::Add(x, hn::Set(d, 2.0f)));
  return hn::Mul(s, Polynomial(d, hn::Mul(s, s), kSeries));
}

// max(x, 0) + log(1 + exp(-|x|))
void TimeSteps(const Rows& x, const float* bias, const StepLimits& limits, Matrix<float> y) {
  const D d;
  const V least = hn::Set(d, limits.least), most = hn::Set(d, limits.most);
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(x, r, [&](const auto* from) HWY_ATTR {
      ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
        const V v = hn::Add(Load(d, from + i, count), Load(d, bias + i, count));
        const V above = LogOnePlus(d, ExpNonPositive(d, hn::Neg(hn::Abs(v))));
        const V step = hn::Add(hn::Max(v, hn::Zero(d)), above);
        Store(d, hn::Min(hn::Max(step, least), most), y.row(r) + i, count);
      });
    });
  }
}

void Fadings(Matrix<const float> x, const float* rates, Matrix<float> y) {
  const D d;
  for (int64_t r = 0; r < x.rows; ++r) {
    ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
      const V exponent = hn::Mul(Load(d, rates + i, count), Load(d, x.row(r) + i, count));
      Store(d, ExpNonPositive(d, hn::Min(exponent, hn::Zero(d))), y.row(r) + i, count);
    });
  }
}

void BoundedFadings(const Rows& x, const float* scales, const float* bias, float bound, Matrix<float> y) {
  const D d;
  const V one = hn::Set(d, 1.0f), most = hn::Set(d, bound);
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(x, r, [&](const auto* from) HWY_ATTR {
      ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
        const V moved = hn::Add(Load(d, from + i, count), Load(d, bias + i, count));
        const V e = Exp(d, hn::Neg(hn::Mul(Load(d, scales + i, count), moved)));
        Store(d, ExpNonPositive(d, hn::Div(most, hn::Add(one, e))), y.row(r) + i, count);
      });
    });
  }
}

void GateRows(Activation activation, const Rows& gate, Matrix<const float> x, const Rows& y) {
  const D d;
  WithActivation(activation, DType::kF32, d, [&](auto f) HWY_ATTR {
    for (int64_t r = 0; r < x.rows; ++r) {
      WithRow(gate, r, [&](const auto* from) HWY_ATTR {
        WithRow(y, r, [&](auto* to) HWY_ATTR {
          ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
            Store(d, hn::Mul(f(Load(d, from + i, count)), Load(d, x.row(r) + i, count)), to + i, count);
          });
        });
      });
    }
  });
}

void MultiplyBySigmoid(const Rows& gate, const Rows& x) {
  const D d;
  const V one = hn::Set(d, 1.0f);
  const int64_t part = x.cols / gate.cols;
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(gate, r, [&](const auto* from) HWY_ATTR {
      WithRow(x, r, [&](auto* to) HWY_ATTR {
        if (part == 1) {
          return ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
            const V e = Exp(d, hn::Neg(Load(d, from + i, count)));
            Store(d, hn::Div(Load(d, to + i, count), hn::Add(one, e)), to + i, count);
          });
        }
        for (int64_t g = 0; g < gate.cols; ++g) {
          const V all = hn::Set(d, hn::GetLane(Load(d, from + g, First{1})));
          const V divisor = hn::Add(one, Exp(d, hn::Neg(all)));
          auto* const some = to + g * part;
          ForVectors(d, part, [&](int64_t i, auto count) HWY_ATTR {
            Store(d, hn::Div(Load(d, some + i, count), divisor), some + i, count);
          });
        }
      });
    });
  }
}

void MultiplyBySoftplus(const Rows& gate, const Rows& x) {
  const D d;
  const int64_t part = x.cols / gate.cols;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t g = 0; g < gate.cols; ++g) {
      const float at =
          gate.dtype == DType::kBf16 ? ToFloat(gate.As<Bf16>().row(r)[g]) : gate.As<float>().row(r)[g];
      const V factor = hn::Set(d, std::max(at, 0.0f) + std::log1p(std::exp(-std::abs(at))));
      WithRow(x.Cols(g * part, part), r, [&](auto* to) HWY_ATTR {
        ForVectors(d, part, [&](int64_t i, auto count) HWY_ATTR {
          Store(d, hn::Mul(Load(d, to + i, count), factor), to + i, count);
        });
      });
    }
  }
}

void ScaleToWhatFades(Matrix<const float> fadings, Matrix<float> x) {
  const D d;
  const V one = hn::Set(d, 1.0f);
  for (int64_t r = 0; r < x.rows; ++r) {
    ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
      const V a = Load(d, fadings.row(r) + i, count);
      const V share = hn::Sqrt(hn::Mul(hn::Sub(one, a), hn::Add(one, a)));
      Store(d, hn::Mul(Load(d, x.row(r) + i, count), share), x.row(r) + i, count);
    });
  }
}

void ScaleToUnit(float factor, float eps, Matrix<float> x) {
  const D d;
  for (int64_t r = 0; r < x.rows; ++r) {
    float* row = x.row(r);
    const float square = Sum(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
      const V v = Load(d, row + i, count);
      return hn::Mul(v, v);
    });
    const V share = hn::Set(d, factor / std::sqrt(square + eps));
    ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
      Store(d, hn::Mul(Load(d, row + i, count), share), row + i, count);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(ConvolveCausal);
HWY_EXPORT(Sigmoid);
HWY_EXPORT(TimeSteps);
HWY_EXPORT(Fadings);
HWY_EXPORT(BoundedFadings);
HWY_EXPORT(GateRows);
HWY_EXPORT(MultiplyBySigmoid);
HWY_EXPORT(MultiplyBySoftplus);
HWY_EXPORT(ScaleToWhatFades);
HWY_EXPORT(ScaleToUnit);

void ConvolveCausal(Matrix<const float> x, Matrix<const float> kernel, const float* bias,
                    Activation activation, Matrix<float> y) {
  HWY_DYNAMIC_DISPATCH(ConvolveCausal)(x, kernel, bias, activation, y);
}

void Sigmoid(const Rows& x, Matrix<float> y) { HWY_DYNAMIC_DISPATCH(Sigmoid)(x, y); }

void TimeSteps(const Rows& x, const float* bias, const StepLimits& limits, Matrix<float> y) {
  HWY_DYNAMIC_DISPATCH(TimeSteps)(x, bias, limits, y);
}

void Fadings(Matrix<const float> x, const float* rates, Matrix<float> y) {
  HWY_DYNAMIC_DISPATCH(Fadings)(x, rates, y);
}

void BoundedFadings(const Rows& x, const float* scales, const float* bias, float bound, Matrix<float> y) {
  HWY_DYNAMIC_DISPATCH(BoundedFadings)(x, scales, bias, bound, y);
}

void GateRows(Activation activation, const Rows& gate, Matrix<const float> x, const Rows& y) {
  HWY_DYNAMIC_DISPATCH(GateRows)(activation, gate, x, y);
}

void MultiplyBySigmoid(const Rows& gate, const Rows& x) { HWY_DYNAMIC_DISPATCH(MultiplyBySigmoid)(gate, x); }

void MultiplyBySoftplus(const Rows& gate, const Rows& x) {
  HWY_DYNAMIC_DISPATCH(MultiplyBySoftplus)(gate, x);
}

void ScaleToWhatFades(Matrix<const float> fadings, Matrix<float> x) {
  HWY_DYNAMIC_DISPATCH(ScaleToWhatFades)(fadings, x);
}

void ScaleToUnit(float factor, float eps, Matrix<float> x) {
  HWY_DYNAMIC_DISPATCH(ScaleToUnit)(factor, eps, x);
}

}  // namespace heed
#endif  // HWY_ONCE
