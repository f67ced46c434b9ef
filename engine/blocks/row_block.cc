#include "engine/blocks/row_block.h"

#include <algorithm>

namespace heed {

int64_t RowStride(int64_t cols, DType dtype) {
  int64_t bytes = (cols * SizeOf(dtype) + 63) / 64 * 64;
  if (bytes % 2048 == 0) bytes += 64;
  return bytes / SizeOf(dtype);
}

RowBuffer::RowBuffer(int64_t rows, int64_t cols, DType dtype) {
  buffer_ = Buffer(Bytes(rows, cols, dtype));
  rows_ = {dtype, buffer_.as<void>(), rows, cols, RowStride(cols, dtype)};
}

int64_t RowBuffer::Bytes(int64_t rows, int64_t cols, DType dtype) {
  return (rows + 8) * RowStride(cols, dtype) * SizeOf(dtype);
}

Rows Pieces::TakeRows(int64_t rows, int64_t cols, DType dtype) {
  return {dtype, TakeBytes(RowBuffer::Bytes(rows, cols, dtype)), rows, cols, RowStride(cols, dtype)};
}

void* Pieces::TakeBytes(int64_t bytes) {
  void* piece = memory_ == nullptr ? nullptr : memory_ + bytes_;
  bytes_ += Scratch::Piece(bytes);
  return piece;
}

BlockBuffers::BlockBuffers(const BlockWidths& widths, Precision precision) {
  DType type = ActivationType(precision);
  input = RowBuffer(widths.rows, widths.width, type);
  result = RowBuffer(widths.rows, widths.width, DType::kF32);
  shared = Buffer(widths.shared_bytes);
  if (precision == Precision::kInt8) {
    quantized = RowBuffer(widths.rows, (widths.reads + 63) / 64 * 64, DType::kU8);
    scales = Buffer(widths.rows * sizeof(float));
  }
}

int64_t BlockBuffers::Bytes(const BlockWidths& widths, Precision precision) {
  const DType type = ActivationType(precision);
  const auto rows = [&](int64_t cols, DType dtype) { return RowBuffer::Bytes(widths.rows, cols, dtype); };
  const int64_t always = rows(widths.width, type) + rows(widths.width, DType::kF32) + widths.shared_bytes;
  if (precision != Precision::kInt8) return always;
  return always + rows((widths.reads + 63) / 64 * 64, DType::kU8) +
         widths.rows * static_cast<int64_t>(sizeof(float));
}

int64_t BlockBuffers::bytes() const {
  return input.bytes() + result.bytes() + quantized.bytes() +
         static_cast<int64_t>(scales.size() + shared.size());
}

Precision PrecisionOfChoices(Precision precision) {
  if (precision != Precision::kInt8) return precision;
  return ActivationType(precision) == DType::kBf16 ? Precision::kBf16 : Precision::kF32;
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

void LinearInTurn(RowBlock& block, int64_t turn, const GemmInput& in, const PackedWeights& weights,
                  const Epilogue& epilogue) {
  const ScratchFrame frame(block.scratch);
  const int size = block.team.size();
  Team turned(static_cast<int>((block.team.rank() + turn) % size), size, nullptr);
  Gemm(turned, in, weights, epilogue, block.scratch);
}

}  // namespace heed
