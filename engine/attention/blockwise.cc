// "blockwise": a token sees its own block and no other: the blockwise pattern of the survey (Tay et al.
// 2022), the local layers of Memory-Compressed attention (Liu et al. 2018); or also the blocks beside it, as
// the Reformer's local layers have them (Kitaev et al. 2020).
//   softmax(Q K' / sqrt(head_dim)) V over { j : -blocks_before <= j div block - i div block <= blocks_after
//   }, in a decoder j <= i
// Options: block, tokens of a block; the last may be shorter. blocks_before (0), blocks_after (0; encoder
// only); head_dim (hidden_size / num_heads).
// State: keys and values of the blocks seen. Decoding is exact.
#include <cmath>

#include "engine/attention/pattern_attention.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostBlocks = 64;  // to either side

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewBlockwiseAttention(const AttentionSetting& setting,
                                                                 JsonFields& fields,
                                                                 const WeightScope& scope) {
  BlockPattern::Blocks blocks{.causal = setting.causal};
  blocks.block = fields.RequiredInt("block", 1, kMostSpan);
  blocks.before = blocks.block * fields.Int("blocks_before", 0, 0, kMostBlocks);
  blocks.after = blocks.block * fields.Int("blocks_after", 0, 0, kMostBlocks);
  if (setting.cross) fields.Fail("blocks are of one sequence: this is no cross-attention");
  if (setting.causal && blocks.after > 0) fields.Fail("blocks_after: blocks of later tokens in a decoder");
  PatternOptions options;
  options.heads = options.key_value_heads = setting.num_heads;
  options.head_dim = ReadHeadDim(setting, fields);
  options.scale = 1 / std::sqrt(static_cast<double>(options.head_dim));
  RETURN_IF_ERROR(fields.Finish());
  options.patterns = {std::make_shared<BlockPattern>(blocks)};
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  return std::make_unique<PatternAttention>(setting, std::move(options), std::move(products));
}

}  // namespace heed
