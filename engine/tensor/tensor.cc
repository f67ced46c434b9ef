// The number types and their conversions, one number at a time; ops/rows.h converts whole rows.
#include "engine/tensor/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace heed {
namespace {

float FromHalf(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 0) return std::copysign(std::ldexp(static_cast<float>(fraction), -24), sign ? -1.f : 1.f);
  const uint32_t rebased = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | rebased << 23 | fraction << 13);
}

// A file's tensors lie at any address, so they are read byte by byte.
template <typename T>
T Load(const void* data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "F64";
    case DType::kF32:
      return "F32";
    case DType::kBf16:
      return "BF16";
    case DType::kF16:
      return "F16";
    case DType::kI64:
      return "I64";
    case DType::kI32:
      return "I32";
    case DType::kS8:
      return "I8";
    case DType::kU8:
      return "U8";
    case DType::kBool:
      return "BOOL";
  }
  LOG(FATAL) << "no such dtype: " << static_cast<int>(dtype);
}

float ToFloat(Bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

Bf16 ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return Bf16{static_cast<uint16_t>(bits >> 16 | 0x40)};  // quiet, and never infinity
  return Bf16{static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

int64_t Tensor::size() const {
  int64_t size = 1;
  for (int64_t n : shape) size *= n;
  return size;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

void ToFloats(const Tensor& tensor, int64_t begin, int64_t count, float* out) {
  switch (tensor.dtype) {
    case DType::kF64:
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(Load<double>(tensor.data, begin + i));
      return;
    case DType::kF32:
      std::memcpy(out, static_cast<const char*>(tensor.data) + begin * sizeof(float), count * sizeof(float));
      return;
    case DType::kBf16:
      for (int64_t i = 0; i < count; ++i) out[i] = ToFloat(Load<Bf16>(tensor.data, begin + i));
      return;
    case DType::kF16:
      for (int64_t i = 0; i < count; ++i) out[i] = FromHalf(Load<uint16_t>(tensor.data, begin + i));
      return;
    default:
      LOG(FATAL) << Name(tensor.dtype) << " is not a float type";
  }
}

std::vector<float> ToFloats(const Tensor& tensor) {
  std::vector<float> floats(tensor.size());
  if (!floats.empty()) ToFloats(tensor, 0, tensor.size(), floats.data());
  return floats;
}

}  // namespace heed
