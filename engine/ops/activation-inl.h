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

// body(f) with f(v) the activation: chosen once, outside of the loops in `body`.
template <class D, class Body>
HWY_INLINE void WithActivation(Activation activation, D d, Body&& body) {
  using V = hn::VFromD<D>;
  switch (activation) {
    case Activation::kNone:
      return body([](V v) { return v; });
    case Activation::kRelu:
      return body([d](V v) { return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v); });
    case Activation::kGelu:
      return body([d](V v) { return Gelu(d, v); });
    case Activation::kGeluTanh:
      return body([d](V v) { return GeluTanh(d, v); });
    case Activation::kSilu:
      return body([d](V v) { return Silu(d, v); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per target
