// What happens to a tile of a product's sums while it is hot: scales, bias, activation, gate, and out. In
// Highway.
#ifndef HEED_ENGINE_OPS_EPILOGUE_H_
#define HEED_ENGINE_OPS_EPILOGUE_H_

#include <cstdint>

#include "engine/ops/gemm.h"
#include "engine/tensor/tensor.h"

namespace heed {

// A panel's sums and what belongs to its columns.
struct PanelTile {
  const void* sums = nullptr;        // f32, or s32 of a product in int8; rows of `ld` numbers
  const float* bias = nullptr;       // [columns]
  const float* scales = nullptr;     // [columns], int8 only
  const int32_t* offsets = nullptr;  // [columns], int8 only: subtracted from the sums
};

struct TileEpilogue {
  PanelTile tile;
  PanelTile up;                       // the second factor of a gated product; sums null otherwise
  const float* row_scales = nullptr;  // [rows], int8 only
  int64_t ld = 0;
  Rows out;  // the tile's own rows and columns
  bool add = false;
  Activation activation = Activation::kNone;
};

void Finish(const TileEpilogue& epilogue);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_EPILOGUE_H_
