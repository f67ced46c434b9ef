#include "engine/attention/distance_table.h"

#include <cstring>
#include <numbers>

#include "engine/ops/microkernel.h"
#include "engine/ops/pack.h"
#include "engine/ops/rows.h"

namespace heed {

DistanceTable::DistanceTable(const PatternOptions& options, const Matrix<float>& relative,
                             const Product& projection, DType type)
    : panel_bytes_(kPanel * RoundUp(options.head_dim * SizeOf(type), 4)),
      panels_(RoundUp(relative.rows, kPanel) / kPanel),
      packed_(Buffer::Zeros(options.heads * panels_ * panel_bytes_)) {
  const int64_t out = projection.weight.dim(0), rows = panels_ * kPanel;
  Buffer projected((rows + kRoom) * out * sizeof(float)), rounded(rows * out * SizeOf(type));
  const Rows floats{DType::kF32, projected.as<float>(), relative.rows, out, out};
  const Rows typed{type, rounded.as<void>(), relative.rows, out, out};
  const PackedWeights weights = PackedWeights::Pack({{projection.weight, projection.bias}}, Precision::kF32);
  Scratch scratch;
  Team alone;
  Gemm(alone, {{DType::kF32, relative.data, relative.rows, relative.cols, relative.stride}}, weights,
       {.out = floats}, scratch);
  Scale(static_cast<float>(options.scale * std::numbers::log2e), floats.As<float>());
  Convert(floats, typed);
  for (int head = 0; head < options.heads; ++head) {
    const Rows of_head = typed.Cols(head * options.head_dim, options.head_dim);
    for (int64_t row = 0; row < relative.rows; row += kPanel)
      PackColumns(of_head.Slice(row, std::min(kPanel, relative.rows - row)), 0, kPanel,
                  const_cast<void*>(Panel(head, row / kPanel)));
  }
}

DistanceProducts::DistanceProducts(DType type, int64_t dim, int64_t columns, Scratch& scratch)
    : pitch_(RoundUp(dim, 16)),
      rows_{type, scratch.Take<char>(Bytes(type, dim)), 0, dim, pitch_},
      products_{scratch.Take<float>(kRows * columns), kRows, columns, columns} {
  std::memset(rows_.data, 0, Bytes(type, dim));
}

void DistanceProducts::Set(const Rows& rows) {
  rows_.rows = rows.rows;
  for (int64_t r = 0; r < rows.rows; ++r)
    std::memcpy(rows_.at(r), rows.at(r), rows.cols * SizeOf(rows.dtype));
}

void DistanceProducts::Multiply(const DistanceTable& table, int head, int64_t panel, int64_t column) const {
  const MicroKernel* kernel = MicroKernel::Get({.a = rows_.dtype,
                                                .m = RoundRows(static_cast<int>(rows_.rows)),
                                                .n = DistanceTable::kPanel,
                                                .k = static_cast<int>(rows_.cols),
                                                .lda = rows_.stride,
                                                .ldb = DistanceTable::kPanel,
                                                .ldc = products_.stride});
  kernel->Run(rows_.at(0), table.Panel(head, panel), products_.data + column);
}

}  // namespace heed
