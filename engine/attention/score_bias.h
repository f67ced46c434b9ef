// What is added to the scores of a tile of query rows before their softmax: a function of the distance, a
// product of its own (Transformer-XL), a mask. And to what their weights give, where that is more than values
// (Shaw).
#ifndef HEED_ENGINE_ATTENTION_SCORE_BIAS_H_
#define HEED_ENGINE_ATTENTION_SCORE_BIAS_H_

#include <cstdint>
#include <span>

#include "engine/ops/softmax.h"
#include "engine/tensor/tensor.h"

namespace heed {

// A bias that leaves a key next to nothing: 2^-126 of the weight of the row's best key. Finite, so that a row
// of which every key is masked has a result too.
inline constexpr float kMasked = -1e9f;

// One tile's scores with one block of keys.
struct BiasBlock {
  int64_t first_row = 0;               // the tile's first, among the queries' rows
  int heads = 1;                       // rows are numbered position by position, within one head by head
  int first_head = 0;                  // of the queries' heads, among all
  std::span<const int64_t> positions;  // of the tile's rows, each at most KeySource::last_place
  int64_t base = 0;                    // position of the key in column 0
  int begin = 0, end = 0;              // columns at work, multiples of kSoftmaxPiece

  int HeadOf(size_t row) const {
    return first_head + static_cast<int>((first_row + static_cast<int64_t>(row)) % heads);
  }
};

class ScoreBias {
 public:
  virtual ~ScoreBias() = default;
  // Sets the rows' `bias`, readable in [begin, end), and `bias_offset`, times log2(e), for all columns that
  // the row sees. They stand until the next call.
  virtual void Mark(const BiasBlock& block, std::span<SoftmaxRow> rows) const = 0;
  // After Mark and the softmax of the same block: adds to the rows' results what the weights [rows, columns],
  // given in [begin, end), bring beside the values. Both have room for the micro-kernel's rounding of rows.
  virtual void AddResults(const BiasBlock& /*block*/, const Rows& /*weights*/,
                          Matrix<float> /*results*/) const {}
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_SCORE_BIAS_H_
