// Sums of rows that lie apart in a table.
#ifndef HEED_ENGINE_OPS_GATHER_H_
#define HEED_ENGINE_OPS_GATHER_H_

#include <cstdint>
#include <span>

#include "engine/tensor/tensor.h"

namespace heed {

// y[c] += sum over i of weights[i] * table[rows[i]][c], in the order of i, in f32. The table is f32 or bf16.
// A column's sum is the same bits whatever other columns are computed with it. While a row is added, those
// that follow are fetched.
void AddWeightedRows(const Rows& table, std::span<const int32_t> rows, const float* weights, float* y);

}  // namespace heed

#endif  // HEED_ENGINE_OPS_GATHER_H_
