#include "engine/blocks/feed_forward.h"

#include "engine/attention/attention.h"
#include "engine/base/status.h"

namespace heed {
namespace {

class DenseFeedForward : public FeedForward {
 public:
  DenseFeedForward(PackedWeights up, PackedWeights down, Activation activation)
      : up_(std::move(up)), down_(std::move(down)), activation_(activation) {
    hidden_ = up_.out();
    weight_bytes_ = up_.bytes() + down_.bytes();
    multiply_adds_ = static_cast<double>(up_.in()) * up_.out() * (up_.gated() ? 2 : 1) +
                     static_cast<double>(down_.in()) * down_.out();
  }

  void Run(RowBlock& block, const Rows& in, const Epilogue& out) const override {
    Rows hidden = block.buffers.hidden.First(block.rows()).Cols(0, hidden_);
    Linear(block, in, up_, {.out = hidden, .activation = activation_});
    hidden.cols = down_.in();
    Linear(block, hidden, down_, out);
  }

 private:
  PackedWeights up_, down_;
  Activation activation_;
};

}  // namespace

absl::StatusOr<HiddenAct> ParseHiddenAct(const std::string& name) {
  if (name == "relu") return HiddenAct{Activation::kRelu, false};
  if (name == "gelu") return HiddenAct{Activation::kGelu, false};
  if (name == "gelu_new") return HiddenAct{Activation::kGeluTanh, false};
  if (name == "silu") return HiddenAct{Activation::kSilu, false};
  if (name == "swiglu") return HiddenAct{Activation::kSilu, true};
  if (name == "geglu") return HiddenAct{Activation::kGelu, true};
  if (name == "reglu") return HiddenAct{Activation::kRelu, true};
  return Invalid("hidden_act '", name, "' is none of relu, gelu, gelu_new, silu, swiglu, geglu, reglu");
}

absl::StatusOr<std::unique_ptr<FeedForward>> NewDenseFeedForward(const WeightScope& scope, int64_t width,
                                                                 int64_t hidden, HiddenAct act,
                                                                 Precision precision) {
  ASSIGN_OR_RETURN(Product up, LoadProduct(scope, "up", hidden, width));
  ASSIGN_OR_RETURN(Product down, LoadProduct(scope, "down", width, hidden));
  PackedWeights first;
  if (act.gated) {
    ASSIGN_OR_RETURN(Product gate, LoadProduct(scope, "gate", hidden, width));
    first = PackedWeights::PackGated({gate.weight, gate.bias}, {up.weight, up.bias}, precision);
  } else {
    first = PackedWeights::Pack({{up.weight, up.bias}}, precision);
  }
  return std::make_unique<DenseFeedForward>(
      std::move(first), PackedWeights::Pack({{down.weight, down.bias}}, precision), act.activation);
}

}  // namespace heed
