// The activations on vectors of floats; see vector_math-inl.h for how to include it. NaN in, NaN out.
// clang-format off
#if defined(HEED_ENGINE_OPS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ENGINE_OPS_ACTIVATION_INL_H_
#undef HEED_ENGINE_OPS_ACTIVATION_INL_H_
#else
#define HEED_ENGINE_OPS_ACTIVATION_INL_H_
#endif
// clang-format on

#include "engine/ops/gemm.h"
#include "engine/ops/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

// x / (1 + exp(-x)), Elfwing et al. 2017.
template <class D, class V>
HWY_INLINE V Silu(D d, V x) {
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Neg(x))));
}

// x Phi(x), Phi the normal distribution (Hendrycks and Gimpel 2016), and 0 below -5.4 where it is above
// -2e-7. log Phi(-t) is nearly a parabola, so a polynomial and a power give the small tail with the same
// relative error, and the other side is what the tail leaves: x Phi(x) = x - x Phi(-x).
template <class D, class V, size_t M, size_t N>
HWY_INLINE V GeluBy(D d, V x, const float (&log2_tail)[M], const float (&power)[N]) {
  const V t = hn::Abs(x);
  const V tail =
      hn::IfThenZeroElse(hn::Gt(t, hn::Set(d, 5.4f)), Exp2InRange(d, Polynomial(d, t, log2_tail), power));
  const V product = hn::Mul(x, tail);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), product, hn::Sub(x, product));
}

// Error 1e-6.
template <class D, class V>
HWY_INLINE V Gelu(D d, V x) {
  constexpr float kLog2Tail[] = {-0.9999988992f,   -1.151145017f,     -0.4589695196f,  -0.05304406379f,
                                 0.007682219433f,  -0.0005145797411f, -6.11041333e-5f, 1.92261661e-5f,
                                 -1.948337727e-6f, 7.512251232e-8f};
  return GeluBy(d, x, kLog2Tail, kExp2);
}

// Error 4e-4, in two thirds of the steps: enough where the result becomes bf16.
template <class D, class V>
HWY_INLINE V GeluCoarse(D d, V x) {
  constexpr float kLog2Tail[] = {-1.00035194f,   -1.14635285f,   -0.469480192f,
                                 -0.0447414593f, 0.00490846178f, -0.0002367635f};
  return GeluBy(d, x, kLog2Tail, kExp2Coarse);
}

// x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, as GPT-2 has it: x / (1 + exp(-2 ...)).
template <class D, class V>
HWY_INLINE V GeluTanh(D d, V x) {
  const V cubic =
      hn::MulAdd(hn::Mul(x, x), hn::Set(d, -2 * 0.7978845608f * 0.044715f), hn::Set(d, -2 * 0.7978845608f));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Mul(x, cubic))));
}

// c x, and below 0 c a (exp(x) - 1), with c and a such that rows keep mean 0 and variance 1 (Klambauer et al.
// 2017). Error 1e-7.
template <class D, class V>
HWY_INLINE V Selu(D d, V x) {
  constexpr float kScale = 1.0507009873554805f, kAlpha = 1.6732632423543772f;
  const V below =
      hn::Mul(hn::Set(d, kScale * kAlpha), hn::Sub(Exp(d, hn::Min(x, hn::Zero(d))), hn::Set(d, 1.0f)));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, hn::Mul(hn::Set(d, kScale), x));
}

// Error 4e-7. Near 0, where 1 - exp(-2|x|) loses digits, the series.
template <class D, class V>
HWY_INLINE V Tanh(D d, V x) {
  constexpr float kSeries[] = {1.0f, -0.3333333333f, 0.1333333333f, -0.05396825397f, 0.02186948854f};
  const V t = hn::Abs(x), one = hn::Set(d, 1.0f);
  const V power = Exp(d, hn::Mul(t, hn::Set(d, -2.0f)));
  const V far = hn::Div(hn::Sub(one, power), hn::Add(one, power));
  const V near = hn::Mul(t, Polynomial(d, hn::Mul(t, t), kSeries));
  return hn::CopySign(hn::IfThenElse(hn::Lt(t, hn::Set(d, 0.25f)), near, far), x);
}

// x / (1 + exp(-1.702 x)), near gelu's (Hendrycks and Gimpel 2016).
template <class D, class V>
HWY_INLINE V QuickGelu(D d, V x) {
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Mul(x, hn::Set(d, -1.702f)))));
}

// gpt-oss (OpenAI 2025): of both factors of a gated product.
inline constexpr float kGateLimit = 7;
template <class D, class V>
HWY_INLINE V AtMost(D d, V x, float limit) {
  const V most = hn::Set(d, limit);
  return hn::IfThenElse(hn::Gt(x, most), most, x);
}
// The second one, beside the first, which is the activation of its own.
template <class D, class V>
HWY_INLINE V ClampedFactor(D d, V x) {
  const V low = hn::Set(d, -kGateLimit), high = AtMost(d, x, kGateLimit);
  return hn::Add(hn::IfThenElse(hn::Lt(high, low), low, high), hn::Set(d, 1.0f));
}

// body(f) with f(v) the activation, as exact as numbers of type `to` can tell: chosen once, outside of the
// loops in `body`.
template <class D, class Body>
HWY_INLINE void WithActivation(Activation activation, DType to, D d, Body&& body) {
  using V = hn::VFromD<D>;
  switch (activation) {
    case Activation::kNone:
      return body([](V v) { return v; });
    case Activation::kRelu:
      return body([d](V v) { return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v); });
    case Activation::kGelu:
      if (to == DType::kBf16) return body([d](V v) { return GeluCoarse(d, v); });
      return body([d](V v) { return Gelu(d, v); });
    case Activation::kGeluTanh:
      return body([d](V v) { return GeluTanh(d, v); });
    case Activation::kSilu:
      return body([d](V v) { return Silu(d, v); });
    case Activation::kSelu:
      return body([d](V v) { return Selu(d, v); });
    case Activation::kTanh:
      return body([d](V v) { return Tanh(d, v); });
    case Activation::kQuickGelu:
      return body([d](V v) { return QuickGelu(d, v); });
    case Activation::kClampedGate:
      return body([d](V v) { return QuickGelu(d, AtMost(d, v, kGateLimit)); });
    case Activation::kRelu2:  // the square of relu (So et al. 2021)
      return body([d](V v) { return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), hn::Mul(v, v)); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per target
