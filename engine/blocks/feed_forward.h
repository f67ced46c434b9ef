// The position-wise network of a layer.
#ifndef HEED_ENGINE_BLOCKS_FEED_FORWARD_H_
#define HEED_ENGINE_BLOCKS_FEED_FORWARD_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/blocks/row_block.h"
#include "engine/weights/weights.h"

namespace heed {

// Const and thread-safe after loading.
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  // The block's rows through the network; the last product ends in `out`. Shares its work among the block's
  // team.
  virtual void Run(RowBlock& block, const Rows& in, const Epilogue& out) const = 0;

  int64_t hidden() const { return hidden_; }  // width of the rows it needs in BlockBuffers::hidden
  int64_t weight_bytes() const { return weight_bytes_; }
  double multiply_adds() const { return multiply_adds_; }  // a row

 protected:
  int64_t hidden_ = 0;
  int64_t weight_bytes_ = 0;
  double multiply_adds_ = 0;
};

// hidden_act in config.json: an activation, or a gated form of one (Shazeer 2020): down(act(gate x) * up x).
struct HiddenAct {
  Activation activation = Activation::kNone;
  bool gated = false;
};
// "relu", "gelu" (erf), "gelu_new" (tanh), "silu"; "swiglu", "geglu", "reglu".
absl::StatusOr<HiddenAct> ParseHiddenAct(const std::string& name);

// Two products with an activation between: scope/{up, gate (if gated), down}.{weight, bias where present}.
absl::StatusOr<std::unique_ptr<FeedForward>> NewDenseFeedForward(const WeightScope& scope, int64_t width,
                                                                 int64_t hidden, HiddenAct act,
                                                                 Precision precision);

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_FEED_FORWARD_H_
