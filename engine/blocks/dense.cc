// "dense": two products with an activation between (Vaswani et al. 2017), or three, where hidden_act is a
// gated form (Shazeer 2020):
//   relu, gelu, gelu_new, silu, tanh, quick_gelu, relu2   y = Wd act(Wu x + bu) + bd
//   swiglu, geglu, reglu, geglu_new                       y = Wd (act(Wg x + bg) * (Wu x + bu)) + bd
//   clamped_glu (gpt-oss, 2025)                           y = Wd (g sigmoid(1.702 g) * (1 + u)) + bd with
//                                                         g = min(Wg x + bg, 7), u = Wu x + bu in [-7, 7]
// Options: intermediate_size (the model's). hidden_act is the model's.
// Tensors: up, gate (if gated), down; biases where present.
#include "engine/blocks/dense.h"

#include <utility>

#include "engine/attention/attention.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostHidden = 1 << 20;

class DenseFeedForward : public FeedForward {
 public:
  DenseFeedForward(const FeedForwardSetting& setting, DenseProducts products)
      : products_(std::move(products)), activation_(setting.act.activation) {
    reads_ = products_.down.in();
    weight_bytes_ = products_.bytes();
    multiply_adds_ = products_.multiply_adds();
  }

  void Run(RowBlock& block, const Rows& in, const Epilogue& out) const override {
    Pieces shared(block.buffers.shared.as<void>());
    const Rows hidden = Hidden(shared, block.buffers.rows()).Slice(0, block.rows());
    Linear(block, in, products_.up, {.out = hidden, .activation = activation_});
    Linear(block, hidden, products_.down, out);
  }

  int64_t SharedBytes(int64_t rows) const override {
    Pieces counted;
    Hidden(counted, rows);
    return counted.bytes();
  }

 private:
  Rows Hidden(Pieces& pieces, int64_t rows) const {
    return pieces.TakeRows(rows, products_.down.in(), ActivationType(products_.down.precision()));
  }

  DenseProducts products_;
  Activation activation_;
};

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
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(DenseProducts products, DenseProducts::Load(own, scope));
  return std::make_unique<DenseFeedForward>(own, std::move(products));
}

}  // namespace heed
