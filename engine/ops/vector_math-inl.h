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

#include <limits>

#include "engine/tensor/tensor.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Numbers of memory as floats. `Count` is All, or First{n} for the last n < Lanes(d) of a row; a load of
// First gives zeros beyond them.
struct All {};
struct First {
  size_t n;
};

template <class D>
HWY_INLINE hn::VFromD<D> Load(D d, const float* from, All) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::VFromD<D> Load(D d, const float* from, First count) {
  return hn::LoadN(d, from, count.n);
}
template <class D>
HWY_INLINE hn::VFromD<D> Load(D d, const Bf16* from, All) {
  const hn::Rebind<hwy::bfloat16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::bfloat16_t*>(from)));
}
template <class D>
HWY_INLINE hn::VFromD<D> Load(D d, const Bf16* from, First count) {
  const hn::Rebind<hwy::bfloat16_t, D> half;
  return hn::PromoteTo(d, hn::LoadN(half, reinterpret_cast<const hwy::bfloat16_t*>(from), count.n));
}

// v, with zeros beyond `count`.
template <class D>
HWY_INLINE hn::VFromD<D> Only(D, hn::VFromD<D> v, All) {
  return v;
}
template <class D>
HWY_INLINE hn::VFromD<D> Only(D d, hn::VFromD<D> v, First count) {
  return hn::IfThenElseZero(hn::FirstN(d, count.n), v);
}

// v, with the lowest of all floats beyond `count`.
template <class D>
HWY_INLINE hn::VFromD<D> OrLowest(D, hn::VFromD<D> v, All) {
  return v;
}
template <class D>
HWY_INLINE hn::VFromD<D> OrLowest(D d, hn::VFromD<D> v, First count) {
  return hn::IfThenElse(hn::FirstN(d, count.n), v, hn::Set(d, std::numeric_limits<float>::lowest()));
}

template <class D>
HWY_INLINE void Store(D d, hn::VFromD<D> v, float* to, All) {
  hn::StoreU(v, d, to);
}
template <class D>
HWY_INLINE void Store(D d, hn::VFromD<D> v, float* to, First count) {
  hn::StoreN(v, d, to, count.n);
}
template <class D>
HWY_INLINE void Store(D d, hn::VFromD<D> v, Bf16* to, All) {
  const hn::Rebind<hwy::bfloat16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, v), half, reinterpret_cast<hwy::bfloat16_t*>(to));
}
template <class D>
HWY_INLINE void Store(D d, hn::VFromD<D> v, Bf16* to, First count) {
  const hn::Rebind<hwy::bfloat16_t, D> half;
  hn::StoreN(hn::DemoteTo(half, v), half, reinterpret_cast<hwy::bfloat16_t*>(to), count.n);
}

// body(row) with the row as numbers of its type.
template <class Body>
HWY_INLINE void WithRow(const Rows& rows, int64_t r, Body&& body) {
  if (rows.dtype == DType::kBf16) {
    body(static_cast<Bf16*>(rows.at(r)));
  } else {
    body(static_cast<float*>(rows.at(r)));
  }
}

// body(i, count) for the vectors of [0, n): All while they are whole, First for the rest.
template <class D, class Body>
HWY_INLINE void ForVectors(D d, int64_t n, Body&& body) {
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, All());
  if (i < n) body(i, First{static_cast<size_t>(n - i)});
}

// The sum of term(i, count), vectors that are zero beyond their count, over [0, n). Four sums run side by
// side, in an order that only n decides.
template <class D, class Term>
HWY_INLINE float Sum(D d, int64_t n, Term&& term) {
  const int64_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = hn::Add(sum0, term(i, All()));
    sum1 = hn::Add(sum1, term(i + lanes, All()));
    sum2 = hn::Add(sum2, term(i + 2 * lanes, All()));
    sum3 = hn::Add(sum3, term(i + 3 * lanes, All()));
  }
  ForVectors(d, n - i, [&](int64_t j, auto count) { sum0 = hn::Add(sum0, term(i + j, count)); });
  return hn::ReduceSum(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
}

// c[0] + c[1] x + c[2] x^2 + ...
template <class D, class V, size_t N>
HWY_INLINE V Polynomial(D d, V x, const float (&c)[N]) {
  V sum = hn::Set(d, c[N - 1]);
#pragma GCC unroll 16  // at -O2 it would stay a loop, half as fast
  for (int i = static_cast<int>(N) - 2; i >= 0; --i) sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  return sum;
}

// x = n ln 2 + r with a whole n and |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to a whole number and leaves it
// in the low bits; shifted to the place of the exponent, these multiply a float by 2^n when added to it.
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

// 2^y for -126 < y < 127; outside it means nothing. `power` is 2^r for |r| <= 1/2, as exact as the result
// has to be.
constexpr float kExp2[] = {1.000000076f,   0.6931471881f,   0.2402210531f,
                           0.05550356899f, 0.009676148062f, 0.001339097825f};       // error 1e-7
constexpr float kExp2Coarse[] = {1.0f, 0.693282927f, 0.242210959f, 0.0550089305f};  // error 1e-4
template <class D, class V, size_t N>
HWY_INLINE V Exp2InRange(D d, V y, const float (&power)[N]) {
  const V round = hn::Set(d, 12582912.0f);
  const V shifted = hn::Add(y, round);
  const V fraction = Polynomial(d, hn::Sub(y, hn::Sub(shifted, round)), power);
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::Add(hn::BitCast(di, fraction), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
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

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per target
