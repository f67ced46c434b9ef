#include "engine/models/layer_inputs.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "engine/attention/attention.h"
#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

double MultiplyAdds(const PackedWeights& weights) {
  return static_cast<double>(weights.in()) * static_cast<double>(weights.out());
}

class MakeInputsStep : public RowStep {
 public:
  // No table: no numbers.
  MakeInputsStep(PackedWeights projection, Norm norm, Tensor table)
      : projection_(std::move(projection)), norm_(std::move(norm)), table_(std::move(table)) {}

  void Run(RowBlock& block, const RowsBeside& beside) const override {
    const Matrix<float> made = block.x.Cols(projection_.in(), projection_.out());
    Linear(block, ForProduct(block, block.x.Cols(0, projection_.in()), nullptr), projection_,
           {.out = AsRows(made)});
    ForRows(block, [&](int64_t first, int64_t count) {
      const Matrix<float> rows = made.Rows(first, count);
      for (int64_t column = 0; column < rows.cols; column += norm_.width()) {
        const Matrix<float> own = rows.Cols(column, norm_.width());
        norm_.Apply(own, AsRows(own));
      }
      if (table_.data != nullptr) AddTokens(beside.ids.subspan(first, count), rows);
    });
  }

  double multiply_adds() const override { return MultiplyAdds(projection_); }
  int64_t reads() const override { return projection_.in(); }
  int64_t weight_bytes() const override { return projection_.bytes(); }

 private:
  void AddTokens(std::span<const int32_t> ids, const Matrix<float>& x) const {
    const float of_token = std::sqrt(static_cast<float>(norm_.width())), of_both = std::sqrt(0.5f);
    std::vector<float> token(x.cols);
    for (int64_t r = 0; r < x.rows; ++r) {
      ToFloats(table_, ids[r] * x.cols, x.cols, token.data());
      float* const row = x.row(r);
      for (int64_t c = 0; c < x.cols; ++c) row[c] = (row[c] + of_token * token[c]) * of_both;
    }
  }

  PackedWeights projection_;
  Norm norm_;
  Tensor table_;
};

class ReadInputStep : public RowStep {
 public:
  // `column`: of the residual stream's rows, where the layer's input begins.
  ReadInputStep(PackedWeights gate, PackedWeights out, Norm norm, Activation activation, int64_t column)
      : gate_(std::move(gate)),
        out_(std::move(out)),
        norm_(std::move(norm)),
        activation_(activation),
        column_(column) {}

  void Run(RowBlock& block, const RowsBeside&) const override {
    const Matrix<float> x = block.x.Cols(0, out_.out()), inputs = block.x.Cols(column_, out_.in());
    const Shared shared = Lay(Pieces(block.buffers.shared.as<void>()), block.buffers.rows());
    const Rows gated = shared.gated.Slice(0, block.rows()), read = shared.read.Slice(0, block.rows());
    Linear(block, ForProduct(block, x, nullptr), gate_, {.out = gated, .activation = activation_});
    ForRows(block, [&](int64_t first, int64_t count) {
      for (int64_t r = first; r < first + count; ++r) {
        float* const gate = gated.As<float>().row(r);
        const float* const input = inputs.row(r);
        for (int64_t c = 0; c < gated.cols; ++c) gate[c] *= input[c];
      }
      Convert(gated.Slice(first, count), read.Slice(first, count));
    });
    const Rows result = block.buffers.result.First(block.rows()).Cols(0, x.cols);
    Linear(block, read, out_, {.out = result});
    ForRows(block, [&](int64_t first, int64_t count) {
      const Rows rows = result.Slice(first, count);
      norm_.Apply(rows.As<float>(), rows);
      Add(rows.As<float>(), x.Rows(first, count));
    });
  }

  double multiply_adds() const override { return MultiplyAdds(gate_) + MultiplyAdds(out_); }
  int64_t reads() const override { return std::max(gate_.in(), out_.in()); }
  int64_t weight_bytes() const override { return gate_.bytes() + out_.bytes(); }
  int64_t SharedBytes(int64_t rows) const override {
    int64_t bytes = 0;
    Lay(Pieces(), rows, &bytes);
    return bytes;
  }

 private:
  struct Shared {
    Rows gated;  // f32
    Rows read;   // the same in the activation type
  };
  Shared Lay(Pieces pieces, int64_t rows, int64_t* bytes = nullptr) const {
    const Shared shared{pieces.TakeRows(rows, out_.in(), DType::kF32),
                        pieces.TakeRows(rows, out_.in(), ActivationType(out_.precision()))};
    if (bytes != nullptr) *bytes = pieces.bytes();
    return shared;
  }

  PackedWeights gate_, out_;
  Norm norm_;
  Activation activation_;
  int64_t column_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowStep>> LoadInputsOfLayers(const ModelConfig& config, const LayerPlan& plan,
                                                            const WeightScope& scope, int64_t* table_bytes) {
  const WeightScope of = scope / "layer_inputs";
  const int64_t numbers = std::ssize(config.layers) * config.layer_inputs;
  ASSIGN_OR_RETURN(PackedWeights projection,
                   LoadWeights(of, "projection", numbers, plan.width, plan.precision));
  ASSIGN_OR_RETURN(Norm norm, Norm::Load(of / "norm", config.layer_inputs, plan.norm));
  Tensor table;
  if (config.layer_inputs_table) {
    ASSIGN_OR_RETURN(table, (scope / "embed").Get("layer_inputs.weight", {config.vocab_size, numbers}));
    *table_bytes += table.size() * SizeOf(table.dtype);
  }
  return std::make_unique<MakeInputsStep>(std::move(projection), std::move(norm), std::move(table));
}

absl::StatusOr<std::unique_ptr<RowStep>> LoadInputOfLayer(const LayerPlan& plan, int i,
                                                          const WeightScope& scope) {
  const int64_t size = plan.layer_input;
  ASSIGN_OR_RETURN(PackedWeights gate, LoadWeights(scope, "gate", size, plan.width, plan.precision));
  ASSIGN_OR_RETURN(PackedWeights out, LoadWeights(scope, "out", plan.width, size, plan.precision));
  ASSIGN_OR_RETURN(Norm norm, Norm::Load(scope / "norm", plan.width, plan.norm));
  return std::make_unique<ReadInputStep>(std::move(gate), std::move(out), std::move(norm),
                                         plan.act.activation, plan.width + i * size);
}

}  // namespace heed
