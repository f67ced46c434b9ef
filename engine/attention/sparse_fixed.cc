// "sparse_fixed": the fixed pattern of the Sparse Transformer (Child et al. 2019). Two sets of a token i:
//   local    { j <= i : j div stride = i div stride }, its block up to itself
//   summary  { j <= i : j mod stride >= stride - summary }, the last tokens of every block
// Options: stride (128 in the paper); summary (8 to 32); heads: "merged", all see both, or "split", the first
// half of
//   the heads (2 h < heads) sees the local set and the others the summaries; pattern: "both", or "local" or
//   "summary" alone in all heads (interleaved layers). Decoder only.
// State: the block at hand and the summaries of all before it. What no later token can see is dropped.
// Decoding is exact; a step reads stride + summary n / stride keys at most. A token that sees nothing gives
// zeros.
#include "engine/attention/pattern_attention.h"
#include "engine/base/status.h"

namespace heed {
namespace {

// Set 0: the block at hand; set 1: the summaries.
class FixedPattern : public Pattern {
 public:
  FixedPattern(int64_t stride, int64_t summary, bool local, bool summaries)
      : stride_(stride), summary_(summary), blocks_({.block = stride, .causal = true}), local_(local) {
    sets_.clear();
    if (local) sets_.emplace_back();
    if (summaries) sets_.push_back({.period = stride, .begin = stride - summary, .end = stride});
  }
  // In both sets, the summaries of the block at hand are seen as its tokens.
  Range Sees(int set, int64_t position) const override {
    if (IsLocal(set)) return blocks_.Sees(0, position);
    return {0, sets_[set].Places(0, local_ ? position / stride_ * stride_ : position + 1)};
  }
  int64_t KeptFrom(int set, int64_t places) const override {
    return IsLocal(set) ? blocks_.KeptFrom(0, places) : 0;
  }
  int64_t MostKept(int set, int64_t places) const override {
    return IsLocal(set) ? blocks_.MostKept(0, places) : places;
  }
  double Pairs(int64_t rows, int64_t tokens) const override { return Until(tokens) - Until(tokens - rows); }

 private:
  bool IsLocal(int set) const { return set == 0 && local_; }
  double Until(int64_t tokens) const {
    const double whole = static_cast<double>(tokens / stride_), rest = static_cast<double>(tokens % stride_),
                 stride = static_cast<double>(stride_), summary = static_cast<double>(summary_);
    double pairs = local_ ? blocks_.Pairs(tokens, tokens) : 0;
    if (std::ssize(sets_) == (local_ ? 2 : 1)) {
      pairs += summary * (stride * whole * (whole - 1) / 2 + rest * whole);
      const double own = rest - (stride - summary);  // of the last block's summaries
      if (!local_) pairs += whole * summary * (summary + 1) / 2 + (own > 0 ? own * (own + 1) / 2 : 0);
    }
    return pairs;
  }

  int64_t stride_, summary_;
  BlockPattern blocks_;
  bool local_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewSparseFixedAttention(const AttentionSetting& setting,
                                                                   JsonFields& fields,
                                                                   const WeightScope& scope) {
  const int64_t stride = fields.RequiredInt("stride", 1, kMostSpan);
  const int64_t summary = fields.RequiredInt("summary", 1, stride);
  const bool split = fields.Choice("heads", {"merged", "split"}) == "split";
  const std::string pattern = fields.Choice("pattern", {"both", "local", "summary"});
  if (!setting.causal || setting.cross)
    fields.Fail("the pattern looks back: this attention is for decoders only");
  std::vector<std::shared_ptr<const Pattern>> patterns;
  for (int head = 0; head < setting.num_heads; ++head) {
    const bool first = 2 * head < setting.num_heads, both = pattern == "both";
    patterns.push_back(std::make_shared<FixedPattern>(stride, summary,
                                                      both ? !split || first : pattern == "local",
                                                      both ? !split || !first : pattern == "summary"));
  }
  return NewPatternAttention(setting, fields, scope, std::move(patterns));
}

}  // namespace heed
