// Norms, activations, conversions and searches: a pass or three over a row while it is in L1.
#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/rows.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include "engine/ops/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/log/check.h"
#include "engine/ops/activation-inl.h"
#include "engine/ops/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<float>;

template <typename X, typename Y>
void LayerNormRow(const X* x, int64_t n, const float* weight, const float* bias, float eps, Y* y) {
  const D d;
  const float mean = Sum(d, n, [&](int64_t i, auto count) { return Load(d, x + i, count); }) / n;
  const auto shift = hn::Set(d, mean);
  const float variance = Sum(d, n,
                             [&](int64_t i, auto count) {
                               const auto deviation = hn::Sub(Load(d, x + i, count), shift);
                               return Only(d, hn::Mul(deviation, deviation), count);
                             }) /
                         n;
  const auto factor = hn::Set(d, 1 / std::sqrt(variance + eps));
  ForVectors(d, n, [&](int64_t i, auto count) {
    const auto normed = hn::Mul(hn::Sub(Load(d, x + i, count), shift), factor);
    const auto b = bias != nullptr ? Load(d, bias + i, count) : hn::Zero(d);
    Store(d, hn::MulAdd(normed, Load(d, weight + i, count), b), y + i, count);
  });
}

template <typename X, typename Y>
void RmsNormRow(const X* x, int64_t n, const float* weight, float eps, Y* y) {
  const D d;
  const float mean_square = Sum(d, n,
                                [&](int64_t i, auto count) {
                                  const auto v = Load(d, x + i, count);
                                  return hn::Mul(v, v);
                                }) /
                            n;
  const auto factor = hn::Set(d, 1 / std::sqrt(mean_square + eps));
  ForVectors(d, n, [&](int64_t i, auto count) {
    const auto normed = hn::Mul(Load(d, x + i, count), factor);
    Store(d, hn::Mul(normed, Load(d, weight + i, count)), y + i, count);
  });
}

void LayerNorm(Matrix<const float> x, const float* weight, const float* bias, float eps, const Rows& y) {
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(y, r, [&](auto* out) { LayerNormRow(x.row(r), x.cols, weight, bias, eps, out); });
  }
}

void RmsNorm(Matrix<const float> x, const float* weight, float eps, const Rows& y) {
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(y, r, [&](auto* out) { RmsNormRow(x.row(r), x.cols, weight, eps, out); });
  }
}

void LayerNormInPlace(const Rows& x, const float* weight, const float* bias, float eps) {
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(x, r, [&](auto* row) { LayerNormRow(row, x.cols, weight, bias, eps, row); });
  }
}

void RmsNormInPlace(const Rows& x, const float* weight, float eps) {
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(x, r, [&](auto* row) { RmsNormRow(row, x.cols, weight, eps, row); });
  }
}

void ClampTo(float limit, const Rows& x) {
  const D d;
  const auto most = hn::Set(d, limit), least = hn::Set(d, -limit);
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(x, r, [&](auto* row) {
      ForVectors(d, x.cols, [&](int64_t i, auto count) {
        const auto v = Load(d, row + i, count);
        const auto raised = hn::IfThenElse(hn::Lt(v, least), least, v);
        Store(d, hn::IfThenElse(hn::Gt(raised, most), most, raised), row + i, count);
      });
    });
  }
}

void Activate(Activation activation, const Rows& x) {
  const D d;
  WithActivation(activation, x.dtype, d, [&](auto f) {
    for (int64_t r = 0; r < x.rows; ++r) {
      WithRow(x, r, [&](auto* row) {
        ForVectors(d, x.cols,
                   [&](int64_t i, auto count) { Store(d, f(Load(d, row + i, count)), row + i, count); });
      });
    }
  });
}

void Convert(const Rows& from, const Rows& to) {
  const D d;
  for (int64_t r = 0; r < from.rows; ++r) {
    WithRow(from, r, [&](const auto* in) {
      WithRow(to, r, [&](auto* out) {
        ForVectors(d, from.cols,
                   [&](int64_t i, auto count) { Store(d, Load(d, in + i, count), out + i, count); });
      });
    });
  }
}

void Add(Matrix<const float> x, Matrix<float> y) {
  const D d;
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* in = x.row(r);
    float* out = y.row(r);
    ForVectors(d, x.cols, [&](int64_t i, auto count) {
      Store(d, hn::Add(Load(d, out + i, count), Load(d, in + i, count)), out + i, count);
    });
  }
}

void AddShares(float x_share, Matrix<const float> x, float y_share, const Rows& y) {
  const D d;
  const auto share = hn::Set(d, x_share), kept = hn::Set(d, y_share);
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* in = x.row(r);
    WithRow(y, r, [&](auto* out) {
      ForVectors(d, x.cols, [&](int64_t i, auto count) {
        const auto sum = hn::MulAdd(Load(d, in + i, count), share, hn::Mul(Load(d, out + i, count), kept));
        Store(d, sum, out + i, count);
      });
    });
  }
}

void Scale(float factor, Matrix<float> x) {
  const D d;
  for (int64_t r = 0; r < x.rows; ++r) {
    float* row = x.row(r);
    ForVectors(d, x.cols, [&](int64_t i, auto count) {
      Store(d, hn::Mul(Load(d, row + i, count), hn::Set(d, factor)), row + i, count);
    });
  }
}

void SoftCap(float factor, float cap, Matrix<float> x) {
  const D d;
  const auto scale = hn::Set(d, factor), most = hn::Set(d, cap);
  for (int64_t r = 0; r < x.rows; ++r) {
    float* row = x.row(r);
    ForVectors(d, x.cols, [&](int64_t i, auto count) {
      Store(d, hn::Mul(most, Tanh(d, hn::Mul(Load(d, row + i, count), scale))), row + i, count);
    });
  }
}

// The largest number, -infinity if all are NaN.
float Largest(const float* x, int64_t n) {
  const D d;
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto best = lowest;
  ForVectors(d, n, [&](int64_t i, auto count) {
    const auto v = Load(d, x + i, count);
    if constexpr (std::is_same_v<decltype(count), First>) {
      best = hn::IfThenElse(hn::And(hn::Gt(v, best), hn::FirstN(d, count.n)), v, best);
    } else {
      best = hn::IfThenElse(hn::Gt(v, best), v, best);
    }
  });
  return hn::ReduceMax(d, best);
}

// The first i with x[i] == value, 0 if there is none.
int64_t FirstIndexOf(float value, const float* x, int64_t n) {
  const D d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const intptr_t at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + i), hn::Set(d, value)));
    if (at >= 0) return i + at;
  }
  for (; i < n; ++i) {
    if (x[i] == value) return i;
  }
  return 0;
}

int64_t ArgMax(const float* x, int64_t n) { return FirstIndexOf(Largest(x, n), x, n); }

// The terms in float, their sum in double.
double LogSumExp(const float* x, int64_t n) {
  const D d;
  constexpr int64_t kBlock = 512;
  const float largest = Largest(x, n);
  if (std::isinf(largest)) return largest;
  const auto shift = hn::Set(d, largest);
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    sum += Sum(d, std::min(kBlock, n - begin), [&](int64_t i, auto count) {
      return Only(d, ExpNonPositive(d, hn::Sub(Load(d, x + begin + i, count), shift)), count);
    });
  }
  return largest + std::log(sum);
}

bool AllFinite(const float* x, int64_t n) {
  const D d;
  // 0 * x is 0, or NaN where x is not finite
  return Sum(d, n, [&](int64_t i, auto count) { return hn::Mul(hn::Zero(d), Load(d, x + i, count)); }) == 0;
}

std::string_view Target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(LayerNorm);
HWY_EXPORT(RmsNorm);
HWY_EXPORT(LayerNormInPlace);
HWY_EXPORT(RmsNormInPlace);
HWY_EXPORT(ClampTo);
HWY_EXPORT(Activate);
HWY_EXPORT(Convert);
HWY_EXPORT(Add);
HWY_EXPORT(AddShares);
HWY_EXPORT(Scale);
HWY_EXPORT(SoftCap);
HWY_EXPORT(ArgMax);
HWY_EXPORT(LogSumExp);
HWY_EXPORT(AllFinite);
HWY_EXPORT(Target);

std::string_view RowKernelTarget() { return HWY_DYNAMIC_DISPATCH(Target)(); }

void LayerNorm(Matrix<const float> x, const float* weight, const float* bias, float eps, const Rows& y) {
  DCHECK(y.rows >= x.rows && y.cols == x.cols);
  HWY_DYNAMIC_DISPATCH(LayerNorm)(x, weight, bias, eps, y);
}

void RmsNorm(Matrix<const float> x, const float* weight, float eps, const Rows& y) {
  DCHECK(y.rows >= x.rows && y.cols == x.cols);
  HWY_DYNAMIC_DISPATCH(RmsNorm)(x, weight, eps, y);
}

void LayerNorm(const Rows& x, const float* weight, const float* bias, float eps) {
  HWY_DYNAMIC_DISPATCH(LayerNormInPlace)(x, weight, bias, eps);
}

void RmsNorm(const Rows& x, const float* weight, float eps) {
  HWY_DYNAMIC_DISPATCH(RmsNormInPlace)(x, weight, eps);
}

void ClampTo(float limit, const Rows& x) { HWY_DYNAMIC_DISPATCH(ClampTo)(limit, x); }

void Activate(Activation activation, const Rows& x) {
  if (activation != Activation::kNone) HWY_DYNAMIC_DISPATCH(Activate)(activation, x);
}

void Convert(const Rows& from, const Rows& to) {
  DCHECK(to.rows >= from.rows && to.cols >= from.cols);
  HWY_DYNAMIC_DISPATCH(Convert)(from, to);
}

void Add(Matrix<const float> x, Matrix<float> y) {
  DCHECK(y.rows >= x.rows && y.cols >= x.cols);
  HWY_DYNAMIC_DISPATCH(Add)(x, y);
}

void AddShares(float x_share, Matrix<const float> x, float y_share, const Rows& y) {
  HWY_DYNAMIC_DISPATCH(AddShares)(x_share, x, y_share, y);
}

void Scale(float factor, Matrix<float> x) { HWY_DYNAMIC_DISPATCH(Scale)(factor, x); }

void SoftCap(float factor, float cap, Matrix<float> x) { HWY_DYNAMIC_DISPATCH(SoftCap)(factor, cap, x); }

int64_t ArgMax(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(ArgMax)(x, n); }

double LogSumExp(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(LogSumExp)(x, n); }

bool AllFinite(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(AllFinite)(x, n); }

void ScaleToLengthOne(std::span<float> x) {
  double sum = 0;
  for (const float number : x) sum += double{number} * number;
  const double length = std::max(std::sqrt(sum), 1e-12);
  for (float& number : x) number = static_cast<float>(number / length);
}

}  // namespace heed
#endif  // HWY_ONCE
