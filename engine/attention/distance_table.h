// Rows of a table by distance, projected once when the model is loaded (DeBERTa, Transformer-XL), and their
// products with a tile's rows, panel by panel for the distances that come up.
#ifndef HEED_ENGINE_ATTENTION_DISTANCE_TABLE_H_
#define HEED_ENGINE_ATTENTION_DISTANCE_TABLE_H_

#include <algorithm>
#include <cstdint>

#include "engine/attention/pattern_attention.h"
#include "engine/base/memory.h"
#include "engine/base/round.h"

namespace heed {

// Of each head packed for the micro-kernel, times scale * log2(e), as biases are. Const and thread-safe.
class DistanceTable {
 public:
  static constexpr int64_t kPanel = kSoftmaxPiece;
  // Rows that the micro-kernel may compute beyond those that there are: `relative` is readable so much
  // farther.
  static constexpr int64_t kRoom = 8;

  // relative [distances, the projection's input].
  DistanceTable(const PatternOptions& options, const Matrix<float>& relative, const Product& projection,
                DType type);
  const void* Panel(int head, int64_t panel) const {
    return packed_.as<char>() + (head * panels_ + panel) * panel_bytes_;
  }
  int64_t bytes() const { return static_cast<int64_t>(packed_.size()); }

 private:
  int64_t panel_bytes_, panels_;
  Buffer packed_;
};

// Rows of a head with the zeros that the micro-kernel reads behind an odd head_dim, and its products with a
// table, of which so many columns are held at a time. SoftmaxCore::kTile rows, or kKeyBlock, at most.
class DistanceProducts {
 public:
  DistanceProducts(DType type, int64_t dim, int64_t columns, Scratch& scratch);
  static int64_t ScratchBytes(DType type, int64_t dim, int64_t columns) {
    return Scratch::Piece(Bytes(type, dim)) + Scratch::Piece(kRows * columns * SizeOf(DType::kF32));
  }
  void Set(const Rows& rows);
  // A panel of the table into the columns from `column` on.
  void Multiply(const DistanceTable& table, int head, int64_t panel, int64_t column) const;
  const float* row(int64_t r) const { return products_.row(r); }

 private:
  static constexpr int64_t kRows = std::max<int64_t>(SoftmaxCore::kTile, kKeyBlock) + DistanceTable::kRoom;
  static int64_t Bytes(DType type, int64_t dim) { return kRows * RoundUp(dim, 16) * SizeOf(type); }

  int64_t pitch_;
  Rows rows_;
  Matrix<float> products_;
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_DISTANCE_TABLE_H_
