#include "engine/attention/delta_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/status.h"
#include "engine/ops/gates.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/recurrence.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr float kUnitEps = 1e-6f;  // of the lengths of q and k

enum Products { kQ, kK, kV, kB = 5 };

}  // namespace

absl::StatusOr<DeltaTensors> LoadDeltaTensors(const DeltaOptions& options, std::vector<Product> products,
                                              const WeightScope& scope) {
  const CausalConvolution::Options convolution{options.channels(), options.kernel, Activation::kSilu};
  DeltaTensors t;
  t.products = std::move(products);
  ASSIGN_OR_RETURN(t.convolution, CausalConvolution::Load(scope / "convolution", convolution));
  ASSIGN_OR_RETURN(const std::vector<float> rates, scope.Floats("a_log", {options.heads}));
  for (const float rate : rates) t.rates.insert(t.rates.end(), options.fadings, -std::exp(rate));
  ASSIGN_OR_RETURN(t.step_bias, scope.Floats("dt_bias", {options.all_fadings()}));
  ASSIGN_OR_RETURN(t.norm, scope.Floats("norm.weight", {options.value_dim}));
  return t;
}

DeltaAttention::DeltaAttention(const DeltaOptions& options, DeltaTensors tensors)
    : o_(options), t_(std::move(tensors)) {
  products_ = std::move(t_.products);
  out_width_ = o_.values();
  constant_bytes_ =
      t_.convolution.bytes() + (2 * o_.all_fadings() + o_.value_dim) * static_cast<int64_t>(sizeof(float));
  sizes_.state = t_.convolution.state() + o_.values() * o_.key_dim;
  sizes_.work = o_.channels() + o_.all_fadings() + o_.heads;
  sizes_.scratch = t_.convolution.ScratchBytes(kPiece, std::max(o_.key_dim, o_.value_dim));
  sizes_.row_cost = t_.convolution.RowCost() +
                    kMoved * static_cast<double>(o_.all_fadings() + o_.heads + 2 * o_.keys() + o_.values()) +
                    3 * static_cast<double>(o_.values() * o_.key_dim);
}

std::vector<AttentionStage> DeltaAttention::Steps(int64_t rows) const {
  const auto n = static_cast<double>(rows);
  const AttentionStage weights = ByRows(rows, kMoved * static_cast<double>(o_.all_fadings() + o_.heads));
  const double convolution = n * std::max(static_cast<double>(o_.key_dim) * (kMoved + o_.kernel),
                                          static_cast<double>(o_.value_dim * o_.kernel));
  return {{convolved() + weights.tasks, std::max(convolution, weights.cost)},
          {o_.heads, 3 * n * static_cast<double>(o_.key_dim * o_.value_dim)},
          ByRows(rows, kMoved * static_cast<double>(o_.values()))};
}

void DeltaAttention::Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const {
  if (step == 0 && task < convolved()) return Convolve(rows, task, scratch);
  if (step == 0) return Weigh(rows, FewRows(rows.count(), task - convolved()));
  if (step == 1) return Scan(rows, task);
  Finish(rows, FewRows(rows.count(), task));
}

// A head, counted from those of q on, then of k, then of v.
void DeltaAttention::Convolve(const RecurrentRows& rows, int64_t head, Scratch& scratch) const {
  const int product = head < o_.key_heads ? kQ : head < 2 * o_.key_heads ? kK : kV;
  const int64_t dim = product == kV ? o_.value_dim : o_.key_dim, of = (head - product * o_.key_heads) * dim,
                begin = product * o_.keys() + of;
  const Matrix<float> to = rows.work.Cols(begin, dim);
  t_.convolution.Apply(rows.Product(product).Cols(of, dim), {begin, begin + dim}, rows.state, to, scratch);
  if (product == kV) return;
  const double scale = product == kQ ? 1 / std::sqrt(static_cast<double>(dim)) : 1;
  ScaleToUnit(static_cast<float>(scale), kUnitEps, to);
}

void DeltaAttention::Weigh(const RecurrentRows& rows, Range few) const {
  const Matrix<float> weights =
      rows.work.Rows(few.begin, few.size()).Cols(o_.channels(), o_.all_fadings() + o_.heads);
  Fade(rows, few, weights.Cols(0, o_.all_fadings()));
  Sigmoid(rows.Product(kB).Slice(few.begin, few.size()), weights.Cols(o_.all_fadings(), o_.heads));
}

void DeltaAttention::Scan(const RecurrentRows& rows, int64_t head) const {
  const int64_t key_head = head / (o_.heads / o_.key_heads), side = o_.key_dim * o_.value_dim;
  const DeltaRows scan{.keys = rows.work.Cols(o_.keys() + key_head * o_.key_dim, o_.key_dim),
                       .queries = rows.work.Cols(key_head * o_.key_dim, o_.key_dim),
                       .fadings = rows.work.Cols(o_.channels() + head * o_.fadings, o_.fadings),
                       .betas = rows.work.Cols(o_.channels() + o_.all_fadings() + head, 1),
                       .factor = o_.factor};
  float* state = rows.state + t_.convolution.state() + head * side;
  DeltaScan(scan, {state, o_.key_dim, o_.value_dim, o_.value_dim},
            rows.work.Cols(2 * o_.keys() + head * o_.value_dim, o_.value_dim));
  MicroKernel::CountCall(3 * rows.count() * side);
}

void DeltaAttention::Finish(const RecurrentRows& rows, Range few) const {
  const Matrix<float> y = rows.work.Rows(few.begin, few.size()).Cols(2 * o_.keys(), o_.values());
  for (int64_t c = 0; c < o_.values(); c += o_.value_dim) {
    const Matrix<float> head = y.Cols(c, o_.value_dim);
    RmsNorm(head, t_.norm.data(), o_.eps, FloatRows(head));
  }
  Gate(rows, few, y);
}

}  // namespace heed
