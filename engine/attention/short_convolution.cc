// "short_convolution": a gated convolution of a few taps in the place of attention, as LFM2 (Liquid AI 2025)
// has it: a row sees but the few before it.
//   [B, C, x] = in(row);  out = C convolution(B x), number by number, causal
// Options: kernel (4) taps.
// Tensors: in [3 hidden_size, hidden_size], convolution.weight [hidden_size, kernel] and convolution.bias.
// State: kernel - 1 rows of hidden_size numbers, whatever the length. Decoding is exact.
#include <algorithm>
#include <memory>
#include <utility>

#include "engine/attention/causal_convolution.h"
#include "engine/attention/recurrence.h"
#include "engine/base/status.h"
#include "engine/ops/gates.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

class ShortConvolution : public RecurrentAttention {
 public:
  ShortConvolution(int64_t width, Product in, CausalConvolution convolution);
  std::vector<AttentionStage> Steps(int64_t rows) const override;
  void Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const override;

 private:
  static constexpr double kGates = 2 * kMoved;  // what a number costs beside the convolution

  int64_t width_;
  CausalConvolution convolution_;
};

ShortConvolution::ShortConvolution(int64_t width, Product in, CausalConvolution convolution)
    : width_(width), convolution_(std::move(convolution)) {
  products_ = {std::move(in)};
  out_width_ = width;
  constant_bytes_ = convolution_.bytes();
  sizes_.state = convolution_.state();
  sizes_.row_cost = convolution_.RowCost() + kGates * static_cast<double>(width);
  sizes_.scratch = 2 * convolution_.ScratchBytes(kFewRows);
}

std::vector<AttentionStage> ShortConvolution::Steps(int64_t rows) const {
  const auto columns = static_cast<double>(std::min(width_, CausalConvolution::kColumns));
  return {
      {convolution_.tasks(), static_cast<double>(rows) * (convolution_.TaskRowCost() + kGates * columns)}};
}

void ShortConvolution::Do(const RecurrentRows& rows, int, int64_t task, Scratch& scratch) const {
  const Range columns = convolution_.Columns(task);
  for (int64_t row = 0; row < rows.count(); row += kFewRows) {
    const ScratchFrame frame(scratch);
    const int64_t count = std::min(kFewRows, rows.count() - row);
    const auto part = [&](int64_t third) {
      return rows.Product(0).Slice(row, count).Cols(third * width_ + columns.begin, columns.size());
    };
    const Matrix<float> x = convolution_.Room(count, columns, scratch),
                        y = convolution_.Room(count, columns, scratch);
    Convert(part(2), FloatRows(x));
    GateRows(Activation::kNone, part(0), x, FloatRows(x));
    convolution_.Apply(x, columns, rows.state, y);
    GateRows(Activation::kNone, part(1), y, rows.out().Slice(row, count).Cols(columns.begin, columns.size()));
  }
  MicroKernel::CountCall(rows.count() * static_cast<int64_t>(convolution_.TaskRowCost()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewShortConvolutionAttention(const AttentionSetting& setting,
                                                                        JsonFields& fields,
                                                                        const WeightScope& scope) {
  const int64_t kernel = CausalConvolution::ReadSize(fields);
  RequireCausal(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(Product in, LoadProduct(scope, "in", 3 * setting.width, setting.width));
  ASSIGN_OR_RETURN(CausalConvolution convolution,
                   CausalConvolution::Load(scope / "convolution", {setting.width, kernel}));
  return std::make_unique<ShortConvolution>(setting.width, std::move(in), std::move(convolution));
}

}  // namespace heed
