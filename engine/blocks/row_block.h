// What a row program works in. All of a Transformer but attention is row-wise, so between two attentions
// everything (output projection, residual, norm, feed-forward, norm, the next projections) runs back to back
// on a block of rows while the block is in the cache. The same program text runs as a team of one on many
// blocks, or as one team of all threads on few rows: every operation here shares its work among the team and
// ends with a barrier.
#ifndef HEED_ENGINE_BLOCKS_ROW_BLOCK_H_
#define HEED_ENGINE_BLOCKS_ROW_BLOCK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/ops/gemm.h"
#include "engine/tensor/tensor.h"

namespace heed {

// The most rows of a block: large enough that a weight panel is read often enough, small enough for the
// cache. A feed-forward may ask for more, up to kMaxGroupedRows.
inline constexpr int64_t kMaxBlockRows = 192, kMaxGroupedRows = 8 * kMaxBlockRows;

// Numbers from one row to the next: whole cache lines, and not a multiple of 2 KiB, where rows would fight
// for the same sets of the cache.
int64_t RowStride(int64_t cols, DType dtype);

// A buffer of rows with room for the micro-kernel's rounding.
class RowBuffer {
 public:
  RowBuffer() = default;
  RowBuffer(int64_t rows, int64_t cols, DType dtype);
  const Rows& rows() const { return rows_; }
  Rows First(int64_t count) const { return rows_.Slice(0, count); }
  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }
  static int64_t Bytes(int64_t rows, int64_t cols, DType dtype);  // closed form

 private:
  Buffer buffer_;
  Rows rows_;
};

// Memory given out in pieces, one after another. Without memory it only counts: a layout and its closed form
// are the same text.
class Pieces {
 public:
  explicit Pieces(void* memory = nullptr) : memory_(static_cast<std::byte*>(memory)) {}

  template <typename T>
  T* Take(int64_t count) {
    return static_cast<T*>(TakeBytes(count * static_cast<int64_t>(sizeof(T))));
  }
  Rows TakeRows(int64_t rows, int64_t cols, DType dtype);  // as a RowBuffer's
  int64_t bytes() const { return bytes_; }                 // taken

 private:
  void* TakeBytes(int64_t bytes);
  std::byte* memory_;
  int64_t bytes_ = 0;
};

// What a model's programs need between products.
struct BlockWidths {
  int64_t width = 0;         // of the residual stream
  int64_t reads = 0;         // widest input of any product
  int64_t shared_bytes = 0;  // the most that a feed-forward's team shares
  int64_t rows = kMaxBlockRows;
};

// The intermediate rows of one block; a thread's own, or the whole team's. Reused by every program.
struct BlockBuffers {
  BlockBuffers(const BlockWidths& widths, Precision precision);
  RowBuffer input;      // activation type: what a sublayer's first product reads
  RowBuffer result;     // f32: a sublayer's result before its norm ("res_post")
  RowBuffer quantized;  // int8 of what a product reads
  Buffer scales;        // of `quantized`, a float a row
  Buffer shared;        // inside the feed-forward, which lays it out
  int64_t rows() const { return input.rows().rows; }  // that a block may have
  int64_t bytes() const;
  static int64_t Bytes(const BlockWidths& widths, Precision precision);  // closed form
};

// One block of the batch's rows, as one member of the team sees it.
struct RowBlock {
  Team& team;
  Scratch& scratch;       // this member's
  BlockBuffers& buffers;  // the team's
  Matrix<float> x;        // the residual stream: the block's rows of the whole batch

  int64_t rows() const { return x.rows; }
};

// Of a product that chooses (an expert, a key, whom a row meets): a rounding to int8 would choose something
// else altogether, so it is made in the activation type instead.
Precision PrecisionOfChoices(Precision precision);

// epilogue(in W' + b) for the block's rows.
void Linear(RowBlock& block, const Rows& in, const PackedWeights& weights, const Epilogue& epilogue);

// One of several products between two barriers, the `turn`-th: each begins with another member, so that small
// ones do not all leave the same members idle. Takes no scratch when it is done.
void LinearInTurn(RowBlock& block, int64_t turn, const GemmInput& in, const PackedWeights& weights,
                  const Epilogue& epilogue);

// f(first, count) for this member's share of the block's rows, then a barrier.
template <typename F>
void ForRows(RowBlock& block, F f) {
  Range share = block.team.Share(block.rows());
  if (share.size() > 0) f(share.begin, share.size());
  block.team.Barrier();
}

// f(row, columns) for this member's share of the block's rows, of which each has `cols` columns: of few rows
// the columns are shared too, in pieces of at least 64.
template <typename F>
void ForRowParts(RowBlock& block, int64_t cols, F f) {
  const int64_t most = block.rows() >= block.team.size() ? 1 : (cols + 63) / 64;
  const int64_t parts = std::min<int64_t>(most, block.team.size()), part = (cols + parts - 1) / parts;
  const Range share = block.team.Share(block.rows() * parts);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t begin = std::min(cols, i % parts * part);
    f(i / parts, Range{begin, std::min(cols, begin + part)});
  }
  block.team.Barrier();
}

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_ROW_BLOCK_H_
