// Views of memory: what type the numbers have, how they lie. Nobody owns anything here but a Tensor, which
// may keep what it was read into.
#ifndef HEED_ENGINE_TENSOR_TENSOR_H_
#define HEED_ENGINE_TENSOR_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/memory.h"

namespace heed {

enum class DType : uint8_t { kF64, kF32, kBf16, kF16, kI64, kI32, kS8, kU8, kBool };

// Bytes of one number.
constexpr int64_t SizeOf(DType dtype) {
  constexpr int64_t kBytes[] = {8, 4, 2, 2, 8, 4, 1, 1, 1};  // by DType
  return kBytes[static_cast<size_t>(dtype)];
}
std::string_view Name(DType dtype);  // as safetensors spells it: "F32", "BF16", ...

// bfloat16: the upper half of a float. Conversion rounds to nearest, ties to even; NaN stays NaN.
struct Bf16 {
  uint16_t bits;
};
float ToFloat(Bf16 value);
Bf16 ToBf16(float value);

// Numbers with a shape, contiguous, row-major, read only: a tensor of a file. Copies share the numbers.
struct Tensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  std::shared_ptr<const Buffer> memory{};  // that the data lies in; null: somebody else keeps it

  // As it is, without its numbers.
  Tensor Form() const { return {dtype, shape}; }
  int64_t dim(int i) const { return shape[i]; }
  int rank() const { return static_cast<int>(shape.size()); }
  int64_t size() const;  // of numbers
};

std::string ShapeText(const std::vector<int64_t>& shape);  // "[768, 3072]"

// The numbers as float, whatever float type the tensor has (f64, f32, bf16, f16).
std::vector<float> ToFloats(const Tensor& tensor);
// Of them, `count` from the number `begin` on: a large matrix is converted row by row.
void ToFloats(const Tensor& tensor, int64_t begin, int64_t count, float* out);

// Rows of activations of one type with a distance between them; what the operations read and write.
// `stride` counts numbers, not bytes.
template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  T* row(int64_t i) const { return data + i * stride; }
  Matrix Rows(int64_t begin, int64_t count) const { return {data + begin * stride, count, cols, stride}; }
  Matrix Cols(int64_t begin, int64_t count) const { return {data + begin, rows, count, stride}; }
  operator Matrix<const T>() const { return {data, rows, cols, stride}; }
};

// The same, the type known at run time only: f32 where a model computes in f32, else bf16.
struct Rows {
  DType dtype = DType::kF32;
  void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  void* at(int64_t row, int64_t col = 0) const {
    return static_cast<char*>(data) + (row * stride + col) * SizeOf(dtype);
  }
  Rows Slice(int64_t begin, int64_t count) const { return {dtype, at(begin), count, cols, stride}; }
  Rows Cols(int64_t begin, int64_t count) const { return {dtype, at(0, begin), rows, count, stride}; }
  template <typename T>
  Matrix<T> As() const {
    return {static_cast<T*>(data), rows, cols, stride};
  }
};

}  // namespace heed

#endif  // HEED_ENGINE_TENSOR_TENSOR_H_
