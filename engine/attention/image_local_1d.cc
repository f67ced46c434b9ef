// "image_local_1d": local attention of the Image Transformer (Parmar et al. 2018) over pixels in raster
// order, cut into query blocks that do not overlap: a pixel sees its own block up to itself and
// `memory_block` pixels before the block. Options: query_block, memory_block (256 each in the paper). Decoder
// only. State: keys and values of query_block + memory_block pixels at most. Decoding is exact: the blocks
// lie fixed.
#include "engine/attention/pattern_attention.h"
#include "engine/base/status.h"

namespace heed {

absl::StatusOr<std::unique_ptr<Attention>> NewImageLocal1dAttention(const AttentionSetting& setting,
                                                                    JsonFields& fields,
                                                                    const WeightScope& scope) {
  BlockPattern::Blocks blocks{.causal = true};
  blocks.block = fields.RequiredInt("query_block", 1, kMostSpan);
  blocks.before = fields.RequiredInt("memory_block", 0, kMostSpan);
  if (!setting.causal || setting.cross)
    fields.Fail("pixels come one after another: this attention is for decoders only");
  return NewPatternAttention(setting, fields, scope, {std::make_shared<BlockPattern>(blocks)});
}

}  // namespace heed
