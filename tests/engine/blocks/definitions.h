// Feed-forwards as their papers write them, in double, with the weights as a precision holds them, and how
// far rounding may take a computation from that: nothing here is measured.
#ifndef HEED_TESTS_ENGINE_BLOCKS_DEFINITIONS_H_
#define HEED_TESTS_ENGINE_BLOCKS_DEFINITIONS_H_

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/blocks/layer.h"

namespace heed {

constexpr double kFloat = 6e-8, kBfloat = 0.004;  // half a unit in the last place: 2^-24, 2^-8

// Numbers and the largest errors of a computation of them.
struct Bounded {
  std::vector<double> value, error;
};

inline Bounded Exactly(const Numbers& numbers) {
  return {{numbers.begin(), numbers.end()}, std::vector<double>(numbers.size(), 0.0)};
}

// A row of weights as the precision holds it.
inline std::vector<double> Held(const float* row, int64_t n, Precision precision) {
  std::vector<double> held(row, row + n);
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(row[i]));
  for (double& x : held) {
    if (precision == Precision::kBf16) x = ToFloat(ToBf16(static_cast<float>(x)));
    if (precision == Precision::kInt8 && largest > 0)
      x = std::nearbyint(static_cast<float>(x) * (127 / largest)) * (largest / 127);
  }
  return held;
}

// W x + b. In int8 x is taken in steps of its largest magnitude / 127: half of one is each number's error.
// Sums of n terms are off by n roundings of their magnitudes at most.
inline Bounded Linear(const FeedForwardLayer& layer, const std::string& name, const Bounded& x,
                      Precision precision) {
  const Numbers& weight = layer.tensor(name + ".weight");
  const auto in = static_cast<int64_t>(x.value.size()), out = std::ssize(weight) / in;
  double step = 0;
  for (int64_t i = 0; i < in; ++i) step = std::max(step, (std::abs(x.value[i]) + x.error[i]) / 127);
  if (precision != Precision::kInt8) step = 0;
  Bounded y;
  for (int64_t j = 0; j < out; ++j) {
    const std::vector<double> w = Held(&weight[j * in], in, precision);
    double sum = layer.has(name + ".bias") ? layer.tensor(name + ".bias")[j] : 0, error = 0;
    double magnitude = std::abs(sum);
    for (int64_t i = 0; i < in; ++i) {
      sum += w[i] * x.value[i];
      error += std::abs(w[i]) * (x.error[i] + step * 0.501);
      magnitude += std::abs(w[i] * x.value[i]);
    }
    y.value.push_back(sum);
    y.error.push_back(error + static_cast<double>(in + 4) * kFloat * (magnitude + error));
  }
  return y;
}

inline double Activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kGelu:
      return x * std::erfc(-x / std::sqrt(2)) / 2;
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGeluTanh:
      return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kQuickGelu:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::kRelu2:
      return x > 0 ? x * x : 0;
    case Activation::kClampedGate:
      return Activated(Activation::kQuickGelu, std::min(x, 7.0));
    default:
      ADD_FAILURE() << "no example has this activation";
      return NAN;
  }
}

// down(act(up x)), or down(act(gate x) * up x), of the tensors under `prefix`. Activations are no steeper
// than 1.13, but for a square, and computed to some 30 roundings.
inline Bounded Dense(const FeedForwardLayer& layer, const std::string& prefix, const Numbers& row) {
  constexpr double kSteepest = 1.13, kOfActivation = 30 * kFloat;
  const HiddenAct act = *ParseHiddenAct(layer.example().act);
  const bool bf16 = ActivationType(layer.precision()) == DType::kBf16;
  Bounded hidden = Linear(layer, prefix + "up", Exactly(row), layer.precision());
  Bounded gate = act.gated ? Linear(layer, prefix + "gate", Exactly(row), layer.precision()) : hidden;
  for (size_t i = 0; i < hidden.value.size(); ++i) {
    double& value = hidden.value[i];
    double& error = hidden.error[i];
    const double active = Activated(act.activation, gate.value[i]);
    if (act.activation == Activation::kClampedGate) value = std::clamp(value, -7.0, 7.0) + 1;
    const double read = std::abs(gate.value[i]), square = 2 * (read + gate.error[i]);
    const double steepest = act.activation == Activation::kRelu2 ? square : kSteepest;
    const double active_error = steepest * gate.error[i] + kOfActivation * (1 + std::max(read, active));
    error = act.gated ? std::abs(active) * error + (std::abs(value) + error) * active_error : active_error;
    value = act.gated ? active * value : active;
    if (bf16) error += kBfloat * (std::abs(value) + error);
  }
  return Linear(layer, prefix + "down", hidden, layer.precision());
}

inline void ExpectWithin(const Bounded& expected, const Numbers& actual, const std::string& what) {
  ASSERT_EQ(expected.value.size(), actual.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected.value[i], expected.error[i]) << what << ", number " << i;
}

// Indices of all numbers, the largest first, of equal ones the first.
inline std::vector<int64_t> Ranking(const std::vector<double>& numbers) {
  std::vector<int64_t> order(numbers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return numbers[a] > numbers[b]; });
  return order;
}

// Whether errors cannot change which are the k first: none of them is as near to one of the others.
inline bool IsCertain(const Bounded& scores, const std::vector<int64_t>& order, size_t k) {
  if (k == order.size()) return true;
  const double largest = *std::max_element(scores.error.begin(), scores.error.end());
  return scores.value[order[k - 1]] - scores.value[order[k]] > 2 * largest;
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_BLOCKS_DEFINITIONS_H_
