#include "engine/attention/row_convolution.h"

#include <algorithm>
#include <cstring>

#include "engine/base/round.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/pack.h"
#include "engine/ops/rows.h"

namespace heed {

RowConvolution::RowConvolution(DType type, const std::vector<float>& kernels, int heads)
    : type_(type),
      size_(static_cast<int64_t>(kernels.size()) / heads),
      reach_(RoundUp(kRows + size_ - 1, 2)) {
  const int64_t stride = RoundUp(reach_, 32) + 16;  // no power of two
  memory_ = Buffer::Zeros(heads * kRows * stride * SizeOf(type));
  bands_ = {type, memory_.as<char>(), heads * kRows, reach_, stride};
  for (int64_t row = 0; row < bands_.rows; ++row) {
    float* kernel = const_cast<float*>(kernels.data()) + row / kRows * size_;
    Convert({DType::kF32, kernel, 1, size_, size_}, bands_.Slice(row, 1).Cols(row % kRows, size_));
  }
}

void RowConvolution::Add(int head, const Rows& x, int64_t first, Matrix<float> y, Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const int64_t columns = RoundUp(x.cols, 16), bytes = columns * SizeOf(type_);
  const int64_t packed_rows = RoundUp(y.rows, kRows) + reach_ - kRows, top = first - size_ / 2;
  char* packed = scratch.Take<char>(packed_rows * bytes);
  std::memset(packed, 0, packed_rows * bytes);
  const int64_t begin = std::max<int64_t>(0, top), end = std::min(top + packed_rows, x.rows);
  PackRows(x.Slice(begin, end - begin), begin - top, columns, packed);
  for (int64_t row = 0; row < y.rows; row += kRows) {
    const int64_t rows = RoundRows(static_cast<int>(std::min(kRows, y.rows - row)));
    const Matrix<float> sums{y.row(row), rows, columns, y.stride};
    MicroKernel::Multiply(bands_.Slice(head * kRows, rows), packed + row * bytes, columns, sums, true);
  }
}

int64_t RowConvolution::ScratchBytes(int64_t rows, int64_t columns) const {
  return none()
             ? 0
             : Scratch::Piece((RoundUp(rows, kRows) + reach_ - kRows) * RoundUp(columns, 16) * SizeOf(type_));
}

}  // namespace heed
