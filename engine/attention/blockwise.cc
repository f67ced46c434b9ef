// "blockwise": a token sees its own block and no other: the blockwise pattern of the survey (Tay et al.
// 2022), the local layers of Memory-Compressed attention (Liu et al. 2018).
//   softmax(Q K' / sqrt(head_dim)) V over { j : j div block = i div block }, in a decoder j <= i
// Options: block, tokens of a block; the last may be shorter.
// State: keys and values of the block at hand. Decoding is exact.
#include "engine/attention/pattern_attention.h"
#include "engine/base/status.h"

namespace heed {

absl::StatusOr<std::unique_ptr<Attention>> NewBlockwiseAttention(const AttentionSetting& setting,
                                                                 JsonFields& fields,
                                                                 const WeightScope& scope) {
  const int64_t block = fields.RequiredInt("block", 1, kMostSpan);
  if (setting.cross) fields.Fail("blocks are of one sequence: this is no cross-attention");
  return NewPatternAttention(
      setting, fields, scope,
      {std::make_shared<BlockPattern>(BlockPattern::Blocks{.block = block, .causal = setting.causal})});
}

}  // namespace heed
