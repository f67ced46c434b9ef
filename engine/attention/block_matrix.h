// The keys and values of one head of one sequence as a matrix with a row for each block of tokens, so that
// mixtures of whole blocks are one product:
//   mixture i = sum over blocks j of weights[i, j] block j
// for keys and values at once, token of a block by token of a block.
//
// Packed for the micro-kernel as rows arrive, in pages of page_blocks() blocks, as many as have some 512
// tokens:
//   [2 * block tokens: keys, then values][page_blocks()][head_dim, rounded up to 16]
// in bf16 with pairs of blocks side by side. Tokens that a block lacks are zeros.
#ifndef HEED_ENGINE_ATTENTION_BLOCK_MATRIX_H_
#define HEED_ENGINE_ATTENTION_BLOCK_MATRIX_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/archive.h"
#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/tensor/tensor.h"

namespace heed {

// Copies share full pages, and have the last one for themselves if it is not full.
class BlockMatrix {
 public:
  BlockMatrix(DType type, int64_t head_dim, int64_t block);
  BlockMatrix(const BlockMatrix& other);
  BlockMatrix(BlockMatrix&&) = default;
  BlockMatrix& operator=(BlockMatrix&&) = default;

  int64_t tokens() const { return tokens_; }
  DType type() const { return type_; }
  int64_t page_blocks() const { return page_blocks_; }
  int64_t page_tokens() const { return page_blocks_ * block_; }
  // Makes room for the next n tokens, which are read after they are written.
  void Grow(int64_t n);
  // Of the rows of tokens from `first` on, [n, head_dim] each, those that a page holds. A page's rows come in
  // ascending order; threads may write different pages.
  void Write(int64_t page, int64_t first, const Rows& keys, const Rows& values) const;

  // The columns of a mixture, and in it where a token's key lies; its value lies block * width() after.
  int64_t mixed_columns() const { return 2 * block_ * width_; }
  int64_t width() const { return width_; }
  // weights: [mixtures, blocks, zeros up to a multiple of page_blocks()], readable and `mixed` writable for
  // RoundRows(mixtures). A mixture is the same bits whichever others come along, and however many zeros.
  void Mix(const Rows& weights, Matrix<float> mixed) const;

  void Archive(StateArchive& archive, int64_t tokens);  // restores into an empty one
  int64_t Bytes(int64_t tokens) const;                  // closed form

 private:
  void MixPages(const Rows& weights, Range pages, Range panels, Matrix<float> mixed) const;
  void MixByHand(const Rows& weights, Range pages, Range panels, Matrix<float> mixed) const;
  int64_t panel_bytes() const { return page_blocks_ * width_ * SizeOf(type_); }
  int64_t page_bytes() const { return 2 * block_ * panel_bytes(); }
  char* Panel(int64_t page, int64_t panel) const { return pages_[page]->as<char>() + panel * panel_bytes(); }

  DType type_;
  int64_t head_dim_, block_;
  int64_t width_;        // of a token
  int64_t page_blocks_;  // even
  int64_t tokens_ = 0;
  std::vector<std::shared_ptr<Buffer>> pages_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_BLOCK_MATRIX_H_
