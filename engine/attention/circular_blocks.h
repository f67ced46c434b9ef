// Blocks that lie in a circle (an encoder's local layers of the Reformer): the last stands before the first.
// There are as many as in the sequence filled up to a whole number of circles' units; of those that hold no
// row nothing is seen. Where they are so few that a block is another's neighbour from several sides, its keys
// count as often. A sequence of one block is not filled up.
#ifndef HEED_ENGINE_ATTENTION_CIRCULAR_BLOCKS_H_
#define HEED_ENGINE_ATTENTION_CIRCULAR_BLOCKS_H_

#include <memory>
#include <vector>

#include "engine/attention/pattern_attention.h"

namespace heed {

struct CircularBlocks {
  int64_t block = 1;              // rows
  int64_t before = 0, after = 0;  // blocks that a row sees beside its own
  int64_t unit = 1;               // rows, a multiple of the block's

  int64_t seen() const { return before + 1 + after; }
  int64_t Count(int64_t tokens) const;  // of the circle's blocks
  // How often a block sees the one so many blocks after it, in a circle of so many.
  int64_t Times(int64_t ahead, int64_t count) const;
  // Whether all rows see all keys, some of them several times.
  bool IsCounted(int64_t tokens) const { return tokens > block && Count(tokens) < seen(); }
};

class CircularPattern : public Pattern {
 public:
  explicit CircularPattern(const CircularBlocks& blocks) : blocks_(blocks) {}
  Range Sees(int, int64_t) const override { return {0, kUnlimited}; }
  double Pairs(int64_t rows, int64_t tokens) const override;
  std::vector<RowSection> Sections(int64_t rows, int64_t tokens) const override;

 private:
  std::vector<Range> Runs(int64_t block, int64_t tokens) const;
  CircularBlocks blocks_;
};

class CircularAttention : public PatternAttention {
 public:
  CircularAttention(const AttentionSetting& setting, PatternOptions options, std::vector<Product> products,
                    const CircularBlocks& blocks)
      : PatternAttention(setting, std::move(options), std::move(products)), blocks_(blocks) {}
  int64_t ScratchBytes() const override;
  void Prepare(const AttentionRows& rows, const Tile& tile, SoftmaxQueries& queries,
               std::vector<KeySource>& sources, std::vector<std::unique_ptr<ScoreBias>>& biases,
               Scratch& scratch) const override;

 private:
  CircularBlocks blocks_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_CIRCULAR_BLOCKS_H_
