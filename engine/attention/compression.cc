#include "engine/attention/compression.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

// What a slot's number becomes with the next row's; what is no number stays none.
float Folded(Compression::Kind kind, float so_far, float next) {
  if (kind == Compression::Kind::kMean) return so_far + next;
  return so_far >= next || std::isnan(so_far) ? so_far : next;
}

// [out, in, tap], packed by part and tap; the bias goes with tap 0, which comes first.
std::vector<PackedWeights> Pack(const Tensor& weight, const Tensor& bias, int64_t part_width, DType type) {
  const int64_t width = weight.dim(0), stride = weight.dim(2);
  std::vector<float> numbers(part_width * width * stride), of_tap(part_width * width), biases(part_width);
  std::vector<PackedWeights> packed;
  for (int64_t out = 0; out < width; out += part_width) {
    ToFloats(weight, out * width * stride, std::ssize(numbers), numbers.data());
    if (bias.data != nullptr) ToFloats(bias, out, part_width, biases.data());
    for (int64_t tap = 0; tap < stride; ++tap) {
      for (int64_t i = 0; i < part_width * width; ++i) of_tap[i] = numbers[i * stride + tap];
      const Tensor own{DType::kF32, {part_width}, tap == 0 ? biases.data() : nullptr};
      packed.push_back(PackedWeights::Pack({{{DType::kF32, {part_width, width}, of_tap.data()}, own}},
                                           type == DType::kBf16 ? Precision::kBf16 : Precision::kF32));
    }
  }
  return packed;
}

}  // namespace

Compression::Kind Compression::ReadKind(JsonFields& fields) {
  const std::string name = fields.Choice("compression", {"conv", "mean", "max"});
  return name == "conv" ? Kind::kConv : name == "mean" ? Kind::kMean : Kind::kMax;
}

Compression::Compression(const AttentionSetting& setting, Kind kind, int64_t stride)
    : kind_(kind),
      stride_(stride),
      width_(setting.width),
      part_width_(setting.width / setting.num_heads),
      type_(ActivationType(setting.precision)) {}

absl::StatusOr<Compression> Compression::Load(const AttentionSetting& setting, Kind kind, int64_t stride,
                                              const WeightScope& scope) {
  Compression compression(setting, kind, stride);
  if (kind != Kind::kConv) return compression;
  const int64_t width = setting.width;
  ASSIGN_OR_RETURN(const Tensor weight, scope.Get("weight", {width, width, stride}));
  ASSIGN_OR_RETURN(const Tensor bias, scope.Optional("bias", {width}));
  compression.weights_ = Pack(weight, bias, compression.part_width_, compression.type_);
  return compression;
}

double Compression::RowCost() const {
  const auto numbers = static_cast<double>(part_width_);
  return kind_ == Kind::kConv ? numbers * static_cast<double>(width_) : numbers;
}

int64_t Compression::ScratchBytes(int64_t slots) const {
  if (kind_ == Kind::kConv) return Scratch::Piece((slots + 8) * Pitch() * SizeOf(type_)) + GemmScratchBytes();
  return Scratch::Piece(slots * part_width_ * SizeOf(DType::kF32));
}

int64_t Compression::bytes() const {
  int64_t sum = 0;
  for (const PackedWeights& weights : weights_) sum += weights.bytes();
  return sum;
}

// Tap by tap, the rows of all slots together; of one slot, only the taps that have come.
void Compression::Fold(int part, int64_t position, const Rows& rows, const Matrix<float>& slots,
                       Scratch& scratch) const {
  if (rows.rows == 0) return;
  const int64_t end = position + rows.rows, first_slot = position / stride_;
  const bool one = (end - 1) / stride_ == first_slot;
  const Range taps = one ? Range{position % stride_, (end - 1) % stride_ + 1} : Range{0, stride_};
  for (int64_t tap = taps.begin; tap < taps.end; ++tap) {
    const int64_t first = (position + stride_ - 1 - tap) / stride_,
                  last = (end + stride_ - 1 - tap) / stride_;
    const Rows of_tap{rows.dtype, rows.at(first * stride_ + tap - position), last - first, rows.cols,
                      rows.stride * stride_};
    if (first < last) FoldTap(part, tap, of_tap, slots.Rows(first - first_slot, last - first), scratch);
  }
}

// Rows a stride of the sequence apart, one for each slot: too far for a product.
void Compression::FoldTap(int part, int64_t tap, const Rows& rows, const Matrix<float>& slots,
                          Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  if (kind_ == Kind::kConv) {
    const Rows together{type_, scratch.Take<char>((rows.rows + 8) * Pitch() * SizeOf(type_)), rows.rows,
                        width_, Pitch()};
    Convert(rows, together);
    Team alone;
    Gemm(alone, {together}, weights_[part * stride_ + tap],
         {.out = {DType::kF32, slots.data, slots.rows, part_width_, slots.stride}, .add = tap > 0}, scratch);
    return;
  }
  const Rows numbers{DType::kF32, scratch.Take<float>(rows.rows * part_width_), rows.rows, part_width_,
                     part_width_};
  Convert(rows.Cols(part * part_width_, part_width_), numbers);
  for (int64_t i = 0; i < rows.rows; ++i) {
    const float* from = numbers.As<float>().row(i);
    float* to = slots.row(i);
    for (int64_t c = 0; c < part_width_; ++c) to[c] = tap == 0 ? from[c] : Folded(kind_, to[c], from[c]);
  }
}

void Compression::Finish(int64_t first, int64_t tokens, const Matrix<float>& slots) const {
  if (kind_ != Kind::kMean) return;
  for (int64_t i = 0; i < slots.rows; ++i) {
    const int64_t rows = std::min(stride_, tokens - (first + i) * stride_);
    Scale(1 / static_cast<float>(rows), slots.Rows(i, 1));
  }
}

}  // namespace heed
