#include "engine/attention/causal_convolution.h"

#include <algorithm>

#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/gates.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostTaps = 64;

void Copy(Matrix<const float> from, Matrix<float> to) {
  for (int64_t r = 0; r < from.rows; ++r) std::copy_n(from.row(r), from.cols, to.row(r));
}

}  // namespace

int64_t CausalConvolution::ReadSize(JsonFields& fields) { return fields.Int("kernel", 4, 1, kMostTaps); }

absl::StatusOr<CausalConvolution> CausalConvolution::Load(const WeightScope& scope, const Options& options) {
  CausalConvolution convolution;
  convolution.options_ = options;
  ASSIGN_OR_RETURN(const std::vector<float> weight, scope.Floats("weight", {options.columns, options.size}));
  ASSIGN_OR_RETURN(const Tensor bias, scope.Optional("bias", {options.columns}));
  convolution.kernel_.resize(weight.size());
  for (int64_t c = 0; c < options.columns; ++c) {
    for (int64_t tap = 0; tap < options.size; ++tap)
      convolution.kernel_[tap * options.columns + c] = weight[c * options.size + tap];
  }
  convolution.bias_ = bias.data == nullptr ? std::vector<float>(options.columns) : ToFloats(bias);
  return convolution;
}

Matrix<float> CausalConvolution::Room(int64_t rows, Range columns, Scratch& scratch) const {
  const int64_t before = options_.size - 1, pitch = Width(columns);
  float* memory = scratch.Take<float>((before + rows) * pitch);
  return {memory + before * pitch, rows, columns.size(), pitch};
}

// The rows before x are the state's.
void CausalConvolution::Apply(Matrix<float> x, Range columns, float* state, Matrix<float> y) const {
  const int64_t before = options_.size - 1, all = options_.columns;
  const Matrix<float> whole{x.data - before * x.stride, before + x.rows, x.cols, x.stride};
  const Matrix<float> last{before > 0 ? state + columns.begin : nullptr, before, columns.size(), all};
  Copy(last, whole);
  const Matrix<const float> kernel{kernel_.data() + columns.begin, options_.size, columns.size(), all};
  ConvolveCausal(whole, kernel, bias_.data() + columns.begin, options_.activation, y);
  Copy(whole.Rows(x.rows, before), last);
}

void CausalConvolution::Apply(const Rows& x, Range columns, float* state, Matrix<float> y,
                              Scratch& scratch) const {
  const ScratchFrame frame(scratch);
  const Matrix<float> room = Room(x.rows, columns, scratch);
  Convert(x, {DType::kF32, room.data, room.rows, room.cols, room.stride});
  Apply(room, columns, state, y);
}

Range CausalConvolution::Columns(int64_t task) const {
  return {task * kColumns, std::min(options_.columns, (task + 1) * kColumns)};
}

int64_t CausalConvolution::tasks() const { return Quotient(options_.columns, kColumns); }

double CausalConvolution::TaskRowCost() const {
  return static_cast<double>(options_.size * std::min(options_.columns, kColumns));
}

int64_t CausalConvolution::Width(Range columns) const { return RoundUp(columns.size(), 16) + 16; }

int64_t CausalConvolution::ScratchBytes(int64_t rows, int64_t columns) const {
  const int64_t width = Width({0, std::min(options_.columns, columns)});
  return Scratch::Piece((options_.size - 1 + rows) * width * static_cast<int64_t>(sizeof(float)));
}

}  // namespace heed
