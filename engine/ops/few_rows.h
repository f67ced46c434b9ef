// The micro-kernel's product by hand, for the few rows of decoding. There, time is reading the panel, and
// oneDNN's kernel reads at half of the memory's speed: it goes through the panel again for every six rows and
// runs too little ahead. This one reads it once, in order, a piece at a time that stays in L1 while all the
// rows use it, and fetches the next piece meanwhile. (768 x 3072 on Zen 4, f32, 1 and 8 rows: 31 and 26 GB/s
// instead of 19 and 16, of 31.)
//
// Its sums are bit for bit those of MicroKernel, one chain of fused additions for each output in K's order,
// so a product may take either for any of its rows.
#ifndef HEED_ENGINE_OPS_FEW_ROWS_H_
#define HEED_ENGINE_OPS_FEW_ROWS_H_

#include <cstdint>
#include <span>

#include "engine/tensor/tensor.h"

namespace heed {

inline constexpr int64_t kFewRows = 32;

// What lies in one piece of a panel: so many of K from where the last piece ended.
struct PanelPiece {
  const void* data = nullptr;
  int64_t k = 0;
  // What will be read soon: up to six rows fetch as many bytes of it meanwhile as the piece has. Null: what
  // lies behind the piece.
  const void* ahead = nullptr;
};

// [rows, k] times a whole panel of `width` outputs, into rows of sums: f32, s32 for kU8. Types and layout are
// MicroKernel's.
struct FewRows {
  Rows a;  // 1 to kFewRows rows; cols is k
  std::span<const PanelPiece> panel;
  void* sums = nullptr;
  bool add = false;    // sums += instead of sums =
  int width = 64;      // or 32
  int64_t ld = width;  // of the sums
};

// Whether MultiplyFewRows computes this: not on a CPU where it could not be fast or not the same bits (older
// vectors, AMX tiles in bf16 and int8), nor where k (of each piece) ends within a pair or quadruple.
bool CanMultiplyFewRows(const Rows& a);
void MultiplyFewRows(const FewRows& product);

using FewRowsKernel = void(const FewRows&);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_FEW_ROWS_H_
