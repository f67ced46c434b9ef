// The contract of every feed-forward, the position-wise network of a layer.
//
// It is what all rows share: weights and options, const after loading; it remembers nothing. Run() takes a
// block of rows of any sequences through it. A row's result follows from the row alone, bit for bit: not from
// the rows beside it, of which some may hold NaN, nor from the size of the team.
//
// The members of a team share the work, and memory in which they meet: what a feed-forward needs between its
// steps it lays out in BlockBuffers::shared (Pieces), for BlockBuffers::rows() rows, with a barrier before
// anybody reads what others wrote. How much that is it declares, so that a pass's memory is known before it
// runs.
#ifndef HEED_ENGINE_BLOCKS_FEED_FORWARD_H_
#define HEED_ENGINE_BLOCKS_FEED_FORWARD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/blocks/norm.h"
#include "engine/blocks/row_block.h"
#include "engine/weights/weights.h"

namespace heed {

// hidden_act in config.json: an activation, or a gated form of one (Shazeer 2020): down(act(gate x) * up x).
struct HiddenAct {
  Activation activation = Activation::kNone;
  bool gated = false;
};
// "relu", "gelu" (erf), "gelu_new" (tanh), "silu", "tanh", "quick_gelu" (x sigmoid(1.702 x)), "relu2" (relu
// squared); "swiglu", "geglu", "reglu", "geglu_new"; "clamped_glu" (Activation::kClampedGate).
absl::StatusOr<HiddenAct> ParseHiddenAct(const std::string& name);

// What a feed-forward may know of the model it stands in.
struct FeedForwardSetting {
  int64_t width = 0;   // hidden_size
  int64_t hidden = 0;  // intermediate_size; 0: the configuration has none
  HiddenAct act;
  int num_heads = 0;  // num_attention_heads
  Precision precision = Precision::kF32;
  std::string where;   // begins error messages: "config.json: layers[3].ffn"
  NormOptions norm{};  // the model's, for those that have norms of their own
};

// Const and thread-safe after loading.
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  // in: [rows, width] in the activation type, at most block_rows() rows. The result goes to, or is added to,
  // out.out: [rows, width] f32, memory that nothing else here uses. All members of the block's team call it;
  // the last thing is a barrier. Throws only bad_alloc.
  virtual void Run(RowBlock& block, const Rows& in, const Epilogue& out) const = 0;

  // Closed form: what it takes of BlockBuffers::shared, where a block may have so many rows.
  virtual int64_t SharedBytes(int64_t rows) const = 0;

  int64_t reads() const { return reads_; }  // widest input that it gives to Linear()
  // Rows that it takes at once: more than kMaxBlockRows where rows that are apart share weights, and then all
  // threads are one team.
  int64_t block_rows() const { return block_rows_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }  // closed form, of each member
  int64_t weight_bytes() const { return weight_bytes_; }    // as held in memory
  double multiply_adds() const { return multiply_adds_; }   // of a row: what is computed for it
  bool data_dependent() const { return data_dependent_; }

 protected:
  int64_t reads_ = 0;
  int64_t block_rows_ = kMaxBlockRows;
  int64_t scratch_bytes_ = GemmScratchBytes();
  int64_t weight_bytes_ = 0;
  double multiply_adds_ = 0;
  // What a row holds decides which weights it meets: another precision's rounding may decide otherwise.
  bool data_dependent_ = false;
};

// Makes the feed-forward that `fields` names ("type"; "dense" if it names none), as feed_forwards.def lists
// them; null if the layer is to have none. Checks every option and tensor; an option that nobody knows is an
// error. The scope is the layer's ffn.
absl::StatusOr<std::unique_ptr<FeedForward>> NewFeedForward(const FeedForwardSetting& setting,
                                                            JsonFields& fields, const WeightScope& scope);

// The types of feed_forwards.def, in its order.
std::vector<std::string_view> FeedForwardTypes();

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_FEED_FORWARD_H_
