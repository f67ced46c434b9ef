// "dense": two products with an activation between (Vaswani et al. 2017), or three, where hidden_act is a
// gated form (Shazeer 2020):
//   relu, gelu, gelu_new, silu, tanh, quick_gelu, relu2   y = Wd act(Wu x + bu) + bd
//   swiglu, geglu, reglu, geglu_new                       y = Wd (act(Wg x + bg) * (Wu x + bu)) + bd
//   clamped_glu (gpt-oss, 2025)                           y = Wd (g sigmoid(1.702 g) * (1 + u)) + bd with
//                                                         g = min(Wg x + bg, 7), u = Wu x + bu in [-7, 7]
// Options: intermediate_size (the model's). hidden_act is the model's, but
//   xielu (false)   xIELU in its place (Huang and Schlag 2025), with numbers that are the layer's own: with
//                   p = softplus(alpha_p), n = beta + softplus(alpha_n), of each number x
//                   p x^2 + beta x where x > 0, else n (exp(min(x, eps)) - 1 - x) + beta x
// Tensors: up, gate (if gated), down; biases where present; xielu.{alpha_p, alpha_n, beta, eps} [1].
#include "engine/blocks/dense.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/base/status.h"
#include "engine/ops/xielu.h"

namespace heed {
namespace {

constexpr int64_t kMostHidden = 1 << 20;

class DenseFeedForward : public FeedForward {
 public:
  DenseFeedForward(const FeedForwardSetting& setting, DenseProducts products,
                   const std::optional<XieluNumbers>& xielu)
      : products_(std::move(products)),
        activation_(xielu ? Activation::kNone : setting.act.activation),
        xielu_(xielu) {
    reads_ = products_.down.in();
    weight_bytes_ = products_.bytes();
    multiply_adds_ = products_.multiply_adds();
  }

  void Run(RowBlock& block, const Rows& in, const Epilogue& out) const override {
    Pieces shared(block.buffers.shared.as<void>());
    const Rows hidden = Hidden(shared, block.buffers.rows()).Slice(0, block.rows());
    const Rows made = Made(shared, block.buffers.rows(), hidden).Slice(0, block.rows());
    Linear(block, in, products_.up, {.out = made, .activation = activation_});
    if (xielu_) {
      ForRows(block, [&](int64_t first, int64_t count) {
        Xielu(*xielu_, made.Slice(first, count).As<const float>(), hidden.Slice(first, count));
      });
    }
    Linear(block, hidden, products_.down, out);
  }

  int64_t SharedBytes(int64_t rows) const override {
    Pieces counted;
    Made(counted, rows, Hidden(counted, rows));
    return counted.bytes();
  }

 private:
  Rows Hidden(Pieces& pieces, int64_t rows) const {
    return pieces.TakeRows(rows, products_.down.in(), ActivationType(products_.down.precision()));
  }
  // What the first product gives: floats where xIELU reads them, in the place of `hidden` if that is floats.
  Rows Made(Pieces& pieces, int64_t rows, const Rows& hidden) const {
    if (!xielu_ || hidden.dtype == DType::kF32) return hidden;
    return pieces.TakeRows(rows, products_.down.in(), DType::kF32);
  }

  DenseProducts products_;
  Activation activation_;
  std::optional<XieluNumbers> xielu_;
};

absl::StatusOr<float> LoadNumber(const WeightScope& scope, std::string_view name) {
  ASSIGN_OR_RETURN(const std::vector<float> numbers, scope.Floats(name, {1}));
  return numbers[0];
}

double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

absl::StatusOr<XieluNumbers> LoadXielu(const WeightScope& scope) {
  ASSIGN_OR_RETURN(const float above, LoadNumber(scope, "alpha_p"));
  ASSIGN_OR_RETURN(const float below, LoadNumber(scope, "alpha_n"));
  ASSIGN_OR_RETURN(const float slope, LoadNumber(scope, "beta"));
  ASSIGN_OR_RETURN(const float most, LoadNumber(scope, "eps"));
  return XieluNumbers{.above = static_cast<float>(Softplus(above)),
                      .below = static_cast<float>(slope + Softplus(below)),
                      .slope = slope,
                      .most = most};
}

}  // namespace

absl::StatusOr<DenseProducts> DenseProducts::Load(const FeedForwardSetting& setting,
                                                  const WeightScope& scope) {
  const int64_t width = setting.width, hidden = setting.hidden;
  ASSIGN_OR_RETURN(Product up, LoadProduct(scope, "up", hidden, width));
  ASSIGN_OR_RETURN(Product down, LoadProduct(scope, "down", width, hidden));
  DenseProducts products;
  products.down = PackedWeights::Pack({{down.weight, down.bias}}, setting.precision);
  if (setting.act.gated) {
    ASSIGN_OR_RETURN(Product gate, LoadProduct(scope, "gate", hidden, width));
    products.up = PackedWeights::PackGated({gate.weight, gate.bias}, {up.weight, up.bias}, setting.precision);
  } else {
    products.up = PackedWeights::Pack({{up.weight, up.bias}}, setting.precision);
  }
  return products;
}

double DenseProducts::multiply_adds() const {
  return static_cast<double>(up.in()) * static_cast<double>(up.out()) * (up.gated() ? 2 : 1) +
         static_cast<double>(down.in()) * static_cast<double>(down.out());
}

void RequireHidden(const FeedForwardSetting& setting, JsonFields& fields) {
  if (setting.hidden == 0) fields.Fail("the model's intermediate_size is missing");
}

absl::StatusOr<std::unique_ptr<FeedForward>> NewDenseFeedForward(const FeedForwardSetting& setting,
                                                                 JsonFields& fields,
                                                                 const WeightScope& scope) {
  FeedForwardSetting own = setting;
  own.hidden = fields.Int("intermediate_size", setting.hidden, 1, kMostHidden);
  RequireHidden(own, fields);
  const bool xielu = fields.Bool("xielu", false);
  if (xielu && own.act.gated) fields.Fail("xielu: true, of a hidden_act without a gate");
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(DenseProducts products, DenseProducts::Load(own, scope));
  std::optional<XieluNumbers> numbers;
  if (xielu) {
    ASSIGN_OR_RETURN(numbers, LoadXielu(scope / "xielu"));
  }
  return std::make_unique<DenseFeedForward>(own, std::move(products), numbers);
}

}  // namespace heed
