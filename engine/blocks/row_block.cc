#include "engine/blocks/row_block.h"

#include <algorithm>

namespace heed {

int64_t RowStride(int64_t cols, DType dtype) {
  int64_t bytes = (cols * SizeOf(dtype) + 63) / 64 * 64;
  if (bytes % 2048 == 0) bytes += 64;
  return bytes / SizeOf(dtype);
}

RowBuffer::RowBuffer(int64_t rows, int64_t cols, DType dtype) {
  int64_t stride = RowStride(cols, dtype);
  buffer_ = Buffer((rows + 8) * stride * SizeOf(dtype));
  rows_ = {dtype, buffer_.as<void>(), rows, cols, stride};
}

BlockBuffers::BlockBuffers(const BlockWidths& widths, Precision precision) {
  DType type = ActivationType(precision);
  input = RowBuffer(kMaxBlockRows, widths.width, type);
  hidden = RowBuffer(kMaxBlockRows, widths.hidden, type);
  result = RowBuffer(kMaxBlockRows, widths.width, DType::kF32);
  if (precision == Precision::kInt8) {
    quantized = RowBuffer(kMaxBlockRows, (widths.reads + 63) / 64 * 64, DType::kU8);
    scales = Buffer(kMaxBlockRows * sizeof(float));
  }
}

int64_t BlockBuffers::bytes() const {
  return input.bytes() + hidden.bytes() + result.bytes() + quantized.bytes() +
         static_cast<int64_t>(scales.size());
}

void Linear(RowBlock& block, const Rows& in, const PackedWeights& weights, const Epilogue& epilogue) {
  GemmInput input{in};
  if (weights.precision() == Precision::kInt8) {
    Rows quantized = block.buffers.quantized.First(in.rows);
    quantized.cols = in.cols;
    Quantize(block.team, in, quantized, block.buffers.scales.as<float>());
    block.team.Barrier();
    input = {quantized, block.buffers.scales.as<float>()};
  }
  Gemm(block.team, input, weights, epilogue, block.scratch);
  block.scratch.Reset();
  block.team.Barrier();
}

}  // namespace heed
