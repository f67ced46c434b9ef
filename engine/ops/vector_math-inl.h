// Functions on vectors of floats, for the Highway kernels of this folder. Included once for each target:
//   #include "engine/ops/vector_math-inl.h"   // after foreach_target.h, outside any namespace
// NaN in, NaN out. Errors are relative, largest found over all of the range.
// clang-format off
#if defined(HEED_ENGINE_OPS_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ENGINE_OPS_VECTOR_MATH_INL_H_
#undef HEED_ENGINE_OPS_VECTOR_MATH_INL_H_
#else
#define HEED_ENGINE_OPS_VECTOR_MATH_INL_H_
#endif
// clang-format on

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// c[0] + c[1] x + c[2] x^2 + ...
template <class D, class V, size_t N>
HWY_INLINE V Polynomial(D d, V x, const float (&c)[N]) {
  V sum = hn::Set(d, c[N - 1]);
  for (int i = static_cast<int>(N) - 2; i >= 0; --i) sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  return sum;
}

// x = n ln 2 + r with a whole n and |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low
// bits; shifted to the place of the exponent, these multiply a float by 2^n when added to it.
template <class D, class V>
struct PowerOfTwo {
  HWY_INLINE PowerOfTwo(D d, V x) {
    const V kRound = hn::Set(d, 12582912.0f);
    const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), kRound);
    n = hn::Sub(shifted, kRound);
    exponent = hn::ShiftLeft<23>(hn::BitCast(hn::RebindToSigned<D>(), shifted));
  }
  HWY_INLINE V Times(D d, V y) const {
    return hn::BitCast(d, hn::Add(hn::BitCast(hn::RebindToSigned<D>(), y), exponent));
  }
  V n;
  hn::VFromD<hn::RebindToSigned<D>> exponent;
};

// exp(x) for -86 <= x <= 88.7; outside it means nothing.
template <class D, class V>
HWY_INLINE V ExpInRange(D d, V x) {
  constexpr float kTail[] = {0.5f, 0.1666650494f, 0.0416664646f, 0.008369184382f, 0.001393368586f};
  const PowerOfTwo<D, V> power(d, x);
  V r = hn::NegMulAdd(power.n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(power.n, hn::Set(d, -2.12194440e-4f), r);
  const V tail = hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, kTail), r);
  return power.Times(d, hn::Add(tail, hn::Set(d, 1.0f)));
}

constexpr float kExpMin = -86.0f, kExpMax = 88.7f;

// exp(x) for x <= 0, 0 below -86 and at -infinity; error 1e-7. The softmax's.
template <class D, class V>
HWY_INLINE V ExpNonPositive(D d, V x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kExpMin)), ExpInRange(d, x));
}

// The same with error 8e-5: enough where the result becomes bf16.
template <class D, class V>
HWY_INLINE V ExpNonPositiveFast(D d, V x) {
  constexpr float kPower[] = {0.9999242541f, 0.693136692f, 0.2426443239f, 0.05583895331f};
  const PowerOfTwo<D, V> power(d, x);
  const V fraction = hn::MulSub(x, hn::Set(d, 1.44269504f), power.n);
  const V y = power.Times(d, Polynomial(d, fraction, kPower));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kExpMin)), y);
}

// exp(x), 0 below -86, at most exp(88.7) = 3.3e38; error 1e-7.
template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  const V max = hn::Set(d, kExpMax);
  return ExpNonPositive(d, hn::IfThenElse(hn::Gt(x, max), max, x));
}

// x / (1 + exp(-x)), Elfwing et al. 2017.
template <class D, class V>
HWY_INLINE V Silu(D d, V x) {
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Neg(x))));
}

// x Phi(x), Phi the normal distribution (Hendrycks and Gimpel 2016); error 1e-6, and 0 below -5.5 where it is above -1.1e-7.
// -log Phi(-t) is nearly a parabola, so a polynomial and one exp give the small tail with the same relative error, and
// the other side is what the tail leaves: x Phi(x) = x - x Phi(-x).
template <class D, class V>
HWY_INLINE V Gelu(D d, V x) {
  constexpr float kMinusLogTail[] = {-0.6931470215f,   -0.7978915581f,    -0.3182590348f, -0.0364792401f,
                                     0.004987793153f,  -0.000129288813f,  -0.0001359994819f, 3.725167682e-5f,
                                     -5.051530331e-6f, 3.695596287e-7f,   -1.159100709e-8f};
  const V t = hn::Abs(x);
  const V tail = hn::IfThenZeroElse(hn::Gt(t, hn::Set(d, 5.5f)), ExpInRange(d, Polynomial(d, t, kMinusLogTail)));
  const V product = hn::Mul(x, tail);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), product, hn::Sub(x, product));
}

// x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, as GPT-2 has it: x / (1 + exp(-2 ...)).
template <class D, class V>
HWY_INLINE V GeluTanh(D d, V x) {
  const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, -2 * 0.7978845608f * 0.044715f), hn::Set(d, -2 * 0.7978845608f));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Mul(x, cubic))));
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per target
