// Blocks of tokens in a soft order that their keys decide (Sparse Sinkhorn Attention, Tay et al. 2020), of
// one head of one sequence:
//   psi_i = sum of block i's keys,  R[i, j] = sort_j . psi_i / temperature
//   S = exp(R), balanced: `iterations` times its rows, then its columns divided by their sums
//   sorted block i = sum_j S[i, j] block j, of keys and of values, token by token
// In a decoder psi_i is the sum of all keys up to block i's first token, and sorted block i mixes earlier
// blocks: S is balanced anew for each i, over the rows and columns before it. So it is known when the block
// begins.
//
// Sorted blocks are counted from 0: a decoder's number s is the second block's and so on, and mixes s + 1.
// They lie in pages as other keys and values do, each Stride() places after the one before.
#ifndef HEED_ENGINE_ATTENTION_SORTED_BLOCKS_H_
#define HEED_ENGINE_ATTENTION_SORTED_BLOCKS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/attention/block_matrix.h"
#include "engine/attention/key_value_pages.h"
#include "engine/base/archive.h"
#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/tensor/tensor.h"

namespace heed {

struct SortingOptions {
  int heads = 1;
  int64_t head_dim = 0;
  bool causal = false;
  int64_t block = 1, max_blocks = 1;
  int64_t wanted = 0;  // sorted blocks of an encoder, from the first; 0: all
  int iterations = 1;
  double temperature = 1;
};

// What all sequences share. Const and thread-safe.
class BlockSorting {
 public:
  // sort: [heads, max_blocks, head_dim]
  BlockSorting(DType type, const SortingOptions& options, const std::vector<float>& sort);

  const SortingOptions& options() const { return options_; }
  DType type() const { return empty_.type(); }
  int64_t constant_bytes() const { return std::ssize(sort_) * SizeOf(DType::kF32); }

  // Of a sequence of so many tokens: its blocks, those that are sorted to them, the places of these.
  int64_t Blocks(int64_t tokens) const;
  int64_t Sorted(int64_t tokens) const;
  int64_t Places(int64_t tokens) const;
  int64_t Stride() const;
  // The places that a row sees of sorted block s.
  Range PlacesOf(int64_t s) const { return {s * Stride(), s * Stride() + options_.block}; }
  // Sorted blocks from a multiple of this many to the next may be mixed while others are.
  int64_t MixedTogether() const;
  // Tokens from a multiple of this many to the next may be taken in while others are.
  int64_t TakenTogether() const { return empty_.page_tokens(); }
  // Numbers from a sorted block's weights to the next one's; all are written.
  int64_t WeightPitch(int64_t tokens) const;

  // Multiply-adds of one head: of a sequence's last `rows`, balancing as the products with a matrix that it
  // is; and of the stages, in their time.
  double Cost(int64_t rows, int64_t tokens) const;
  double ScoreCost(Range sorted, int64_t rows) const;
  double BalanceCost(int64_t blocks) const;
  double MixCost(int64_t sorted, int64_t blocks) const;

  // Closed form, of one head, weights not counted: a decoder's between rows, an encoder's at most.
  int64_t StateBytes(int64_t tokens) const;
  // For one sorted block, and for as many as are mixed together.
  int64_t ScratchBytes() const;

 private:
  friend class SortedBlocks;
  double Until(int64_t tokens) const;
  void AddRows(const Rows& rows, float* sum) const;
  std::shared_ptr<Buffer> Scores(int head, const float* psi, int64_t columns) const;

  SortingOptions options_;
  BlockMatrix empty_;
  std::vector<float> sort_;  // [heads, head_dim, max_blocks] / temperature
  std::vector<float> ones_;
  std::vector<int32_t> ascending_;
};

// What one head keeps. For rows that come: Grow, then Score and, for each page of tokens, Write; then
// Balance; then Mix.
class SortedBlocks {
 public:
  SortedBlocks(const BlockSorting& sorting, int head);

  void Grow(int64_t rows);
  // The keys, [rows, head_dim], of tokens from `first` on, the newest: their blocks' rows of R.
  void Score(int64_t first, const Rows& keys, Scratch& scratch);
  // Of the same tokens, those from a multiple of TakenTogether() on, the page-th, to the next.
  void Write(int64_t page, int64_t first, const Rows& keys, const Rows& values) const {
    matrix_.Write(page, first, keys, values);
  }
  // weights: [sorted blocks, WeightPitch()], and readable for RoundRows() of them: rows of S. Of a decoder's,
  // one at a time.
  void Balance(Range sorted, const Rows& weights, Scratch& scratch) const;
  void Mix(Range sorted, const Rows& weights, Scratch& scratch);
  // What rows to come do not see.
  void Forget();

  const KeyValuePages& pages() const { return pages_; }
  void Archive(StateArchive& archive, int64_t tokens);  // a decoder's, between rows

 private:
  int64_t Begin(int64_t tokens) const;  // the first place that rows after so many tokens see

  const BlockSorting* sorting_;
  int head_;
  BlockMatrix matrix_;
  KeyValuePages pages_;                          // of sorted blocks
  std::vector<std::shared_ptr<Buffer>> scores_;  // R, row by row, each less its largest number if balanced
  std::vector<double> before_;                   // sum of the keys of whole blocks
  std::vector<float> open_;                      // of the block at hand
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_SORTED_BLOCKS_H_
