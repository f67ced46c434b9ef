// "lightning": lightning attention (Qin et al. 2024), as MiniMax-01 has it: linear attention of which what is
// remembered fades, each head's at its own rate, and no softmax:
//   q, k, v = silu(q), silu(k), silu(v)
//   S = exp(-slope) S + k' v,  y = q S,  slope of head h of n: slope_factor 2^(-8 (h + 1) / n)
//   out = RMS norm of all heads' y, times sigmoid(gate)
// Options: head_dim (hidden_size / heads); slope_factor (1), which MiniMax makes smaller from layer to layer;
// norm_eps (1e-6).
// Tensors: q, k, v, gate [heads head_dim, hidden_size], norm.weight [heads head_dim].
// State: heads head_dim head_dim numbers, whatever the length. Decoding is exact.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/recurrence.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/gates.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/recurrence.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

struct Options {
  int64_t heads = 0, head_dim = 0;
  double slope_factor = 1;
  float eps = 0;

  int64_t inner() const { return heads * head_dim; }
};

enum Products { kQ, kK, kV, kGate, kProducts };

// What steps hand on of a row: all heads' y.
class LightningAttention : public RecurrentAttention {
 public:
  LightningAttention(const Options& options, std::vector<Product> products, std::vector<float> norm);
  std::vector<AttentionStage> Steps(int64_t rows) const override;
  void Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const override;

 private:
  void Scan(const RecurrentRows& rows, int64_t head, Scratch& scratch) const;
  void Finish(const RecurrentRows& rows, Range few, Scratch& scratch) const;
  static int64_t Pitch(int64_t columns) { return RoundUp(columns, 16) + 16; }
  static int64_t Floats(int64_t columns) {
    return Scratch::Piece(kFewRows * Pitch(columns) * static_cast<int64_t>(sizeof(float)));
  }
  static Matrix<float> Take(int64_t rows, int64_t columns, Scratch& scratch) {
    return {scratch.Take<float>(kFewRows * Pitch(columns)), rows, columns, Pitch(columns)};
  }

  Options o_;
  std::vector<float> fadings_;  // of the heads
  std::vector<float> norm_;
};

LightningAttention::LightningAttention(const Options& options, std::vector<Product> products,
                                       std::vector<float> norm)
    : o_(options), norm_(std::move(norm)) {
  for (int64_t h = 0; h < o_.heads; ++h) {
    const double slope =
        o_.slope_factor * std::pow(2.0, -8.0 * static_cast<double>(h + 1) / static_cast<double>(o_.heads));
    fadings_.push_back(static_cast<float>(std::exp(-slope)));
  }
  products_ = std::move(products);
  out_width_ = o_.inner();
  constant_bytes_ = (o_.heads + o_.inner()) * static_cast<int64_t>(sizeof(float));
  sizes_.state = o_.inner() * o_.head_dim;
  sizes_.work = o_.inner();
  sizes_.scratch = std::max(2 * Floats(o_.head_dim), Floats(o_.inner()));
  sizes_.row_cost = static_cast<double>(o_.inner()) * (2 * static_cast<double>(o_.head_dim) + 4 * kMoved);
}

std::vector<AttentionStage> LightningAttention::Steps(int64_t rows) const {
  const auto dim = static_cast<double>(o_.head_dim);
  return {{o_.heads, static_cast<double>(rows) * dim * (2 * dim + 3 * kMoved)},
          ByRows(rows, kMoved * static_cast<double>(o_.inner()))};
}

void LightningAttention::Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const {
  if (step == 0) return Scan(rows, task, scratch);
  Finish(rows, FewRows(rows.count(), task), scratch);
}

void LightningAttention::Scan(const RecurrentRows& rows, int64_t head, Scratch& scratch) const {
  static constexpr float kWhole = 1;
  const int64_t dim = o_.head_dim, side = dim * dim;
  const Matrix<float> state{rows.state + head * side, dim, dim, dim};
  for (int64_t row = 0; row < rows.count(); row += kFewRows) {
    const ScratchFrame frame(scratch);
    const int64_t count = std::min(kFewRows, rows.count() - row);
    const auto active = [&](int product, Matrix<float> to) {
      Convert(rows.Product(product).Slice(row, count).Cols(head * dim, dim), FloatRows(to));
      Activate(Activation::kSilu, FloatRows(to));
      return to;
    };
    const FadingRows scan{.keys = active(kK, Take(count, dim, scratch)),
                          .queries = active(kQ, Take(count, dim, scratch)),
                          .fadings = {&fadings_[head], count, 1, 0},
                          .shares = {&kWhole, count, 1, 0}};
    FadingScan(scan, state, active(kV, rows.work.Rows(row, count).Cols(head * dim, dim)));
  }
  MicroKernel::CountCall(2 * rows.count() * side);
}

void LightningAttention::Finish(const RecurrentRows& rows, Range few, Scratch& scratch) const {
  const Matrix<float> y = rows.work.Rows(few.begin, few.size()), gate = Take(few.size(), o_.inner(), scratch);
  RmsNorm(y, norm_.data(), o_.eps, FloatRows(y));
  Sigmoid(rows.Product(kGate).Slice(few.begin, few.size()), gate);
  GateRows(Activation::kNone, FloatRows(gate), y, rows.out().Slice(few.begin, few.size()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewLightningAttention(const AttentionSetting& setting,
                                                                 JsonFields& fields,
                                                                 const WeightScope& scope) {
  Options o;
  o.heads = setting.num_heads;
  o.head_dim = fields.Has("head_dim") ? 0 : HeadDim(setting, fields);
  o.head_dim = fields.Int("head_dim", o.head_dim, 1, RecurrentAttention::kMostSide);
  o.slope_factor = fields.Number("slope_factor", 1, 0, 256);
  o.eps = static_cast<float>(fields.Number("norm_eps", 1e-6, 0, 1));
  RequireCausal(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  std::vector<Product> products;
  for (const char* name : {"q", "k", "v", "gate"}) {
    ASSIGN_OR_RETURN(products.emplace_back(), LoadProduct(scope, name, o.inner(), setting.width));
  }
  ASSIGN_OR_RETURN(std::vector<float> norm, scope.Floats("norm.weight", {o.inner()}));
  return std::make_unique<LightningAttention>(o, std::move(products), std::move(norm));
}

}  // namespace heed
