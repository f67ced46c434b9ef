// "blockwise": a token sees its own block and no other: the blockwise pattern of the survey (Tay et al.
// 2022), the local layers of Memory-Compressed attention (Liu et al. 2018); or also the blocks beside it, as
// the Reformer's local layers have them (Kitaev et al. 2020).
//   softmax(Q K' / sqrt(head_dim)) V over { j : -blocks_before <= j div block - i div block <= blocks_after
//   }, in a decoder j <= i
// Options: block, tokens of a block; the last may be shorter. blocks_before (0), blocks_after (0; encoder
// only); head_dim (hidden_size / num_heads); wrap_unit (none; encoder only), as the Reformer has them: blocks
// lie in a circle, the last before the first, of the sequence filled up to a multiple of so many tokens,
// unless it is one block. Blocks that hold no token are seen by nobody, and one that stands beside another
// several times, since there are few, counts as often.
// State: keys and values of the blocks seen. Decoding is exact.
#include <cmath>

#include "engine/attention/circular_blocks.h"
#include "engine/attention/pattern_attention.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostBlocks = 64;  // to either side

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewBlockwiseAttention(const AttentionSetting& setting,
                                                                 JsonFields& fields,
                                                                 const WeightScope& scope) {
  const int64_t block = fields.RequiredInt("block", 1, kMostSpan),
                before = fields.Int("blocks_before", 0, 0, kMostBlocks),
                after = fields.Int("blocks_after", 0, 0, kMostBlocks),
                unit = fields.Int("wrap_unit", 0, 1, kMostSpan);
  if (setting.cross) fields.Fail("blocks are of one sequence: this is no cross-attention");
  if (setting.causal && after > 0) fields.Fail("blocks_after: blocks of later tokens in a decoder");
  if (setting.causal && unit > 0) fields.Fail("wrap_unit: the last block is later than a decoder's first");
  if (unit % block != 0) fields.Fail(Cat("wrap_unit: ", unit, " is no multiple of block, ", block));
  PatternOptions options;
  options.heads = options.key_value_heads = setting.num_heads;
  options.head_dim = ReadHeadDim(setting, fields);
  options.scale = 1 / std::sqrt(static_cast<double>(options.head_dim));
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  if (unit > 0) {
    const CircularBlocks blocks{.block = block, .before = before, .after = after, .unit = unit};
    options.patterns = {std::make_shared<CircularPattern>(blocks)};
    return std::make_unique<CircularAttention>(setting, std::move(options), std::move(products), blocks);
  }
  const BlockPattern::Blocks blocks{
      .block = block, .before = before * block, .causal = setting.causal, .after = after * block};
  options.patterns = {std::make_shared<BlockPattern>(blocks)};
  return std::make_unique<PatternAttention>(setting, std::move(options), std::move(products));
}

}  // namespace heed
