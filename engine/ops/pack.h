// Rows into the layout in which the micro-kernel reads its B: keys as columns, values as rows, one after
// another as they arrive.
#ifndef HEED_ENGINE_OPS_PACK_H_
#define HEED_ENGINE_OPS_PACK_H_

#include <cstdint>

#include "engine/tensor/tensor.h"

namespace heed {

// B = [rows.cols, ldb], f32; bf16: [ceil(rows.cols / 2), ldb, 2]. Row r of `rows` becomes the column `first`
// + r: B of a product with the transposed rows. An odd last number of bf16 is followed by a zero.
void PackColumns(const Rows& rows, int64_t first, int64_t ldb, void* b);

// B = [any, ldb], f32; bf16: [any / 2, ldb, 2]. Row r becomes row `first` + r, filled up with zeros to ldb;
// in bf16 an even last row is followed by a row of zeros.
void PackRows(const Rows& rows, int64_t first, int64_t ldb, void* b);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_PACK_H_
