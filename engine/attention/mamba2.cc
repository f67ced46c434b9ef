// "mamba2": the state-space duality layer (Dao and Gu 2024), of Mamba 2, Bamba, Falcon H1 and Granite 4. A
// head's state, [state_size, head_dim], fades by what the row itself says:
//   [z, x, B, C, dt] = in(row);  [x, B, C] = silu(convolution([x, B, C])), causal
//   dt = softplus(dt + dt_bias), within time_step_min and time_step_max
//   S = exp(-exp(a_log) dt) S + B' (dt x),  y = C S + d x
//   out = the norm of all heads' y silu(z)
// Heads have numbers a_log, d and dt_bias; a group of them shares B and C.
// Options: head_dim, state_size; num_groups (1) of B and C; kernel (4) taps of the convolution; time_step_min
// (0), time_step_max (none); norm "gate_first": RMS norm of y silu(z) | "norm_first": norm(y) silu(z) |
// "none": y silu(z); norm_groups (1) that are normed each by itself; norm_eps (1e-5).
// Tensors: in [2 heads head_dim + 2 num_groups state_size + heads, hidden_size], convolution.weight [heads
// head_dim + 2 num_groups state_size, kernel] and convolution.bias, a_log, d, dt_bias [heads], norm.weight
// [heads head_dim].
// State: heads head_dim state_size numbers and kernel - 1 rows before the convolution, whatever the length.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/causal_convolution.h"
#include "engine/attention/recurrence.h"
#include "engine/base/status.h"
#include "engine/ops/gates.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/recurrence.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

struct Options {
  int64_t heads = 0, head_dim = 0, state = 0, groups = 1, kernel = 4;
  StepLimits steps;
  enum class Norm { kGateFirst, kNormFirst, kNone } norm = Norm::kGateFirst;
  int64_t norm_groups = 1;
  float eps = 0;

  int64_t inner() const { return heads * head_dim; }
  int64_t channels() const { return inner() + 2 * groups * state; }  // x, B, C
  int64_t in() const { return inner() + channels() + heads; }        // z, x, B, C, dt
};

struct Tensors {
  Product in;
  CausalConvolution convolution;
  std::vector<float> rates;  // -exp(a_log)
  std::vector<float> skips, step_bias, norm;
};

// What steps hand on of a row: x, B, C, then each head's time step and how much of its state stays. y takes
// the place of x.
class Mamba2Attention : public RecurrentAttention {
 public:
  Mamba2Attention(const Options& options, Tensors tensors);
  std::vector<AttentionStage> Steps(int64_t rows) const override;
  void Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const override;

 private:
  void Prepare(const RecurrentRows& rows, int64_t task, Scratch& scratch) const;
  void Scan(const RecurrentRows& rows, int64_t head) const;
  void Finish(const RecurrentRows& rows, Range few) const;
  void Norm(Matrix<const float> y, const Rows& out) const;

  Options o_;
  Tensors t_;
};

Mamba2Attention::Mamba2Attention(const Options& options, Tensors tensors)
    : o_(options), t_(std::move(tensors)) {
  products_ = {t_.in};
  t_.in = {};
  out_width_ = o_.inner();
  constant_bytes_ =
      t_.convolution.bytes() + (std::ssize(t_.norm) + 3 * o_.heads) * static_cast<int64_t>(sizeof(float));
  sizes_.state = t_.convolution.state() + o_.inner() * o_.state;
  sizes_.work = o_.channels() + 2 * o_.heads;
  sizes_.scratch = t_.convolution.ScratchBytes(kPiece);
  sizes_.row_cost = t_.convolution.RowCost() + kMoved * static_cast<double>(2 * o_.heads + o_.inner()) +
                    2 * static_cast<double>(o_.inner() * o_.state);
}

std::vector<AttentionStage> Mamba2Attention::Steps(int64_t rows) const {
  const AttentionStage steps = ByRows(rows, 2 * kMoved * static_cast<double>(o_.heads));
  const double convolution = static_cast<double>(rows) * t_.convolution.TaskRowCost();
  return {{t_.convolution.tasks() + steps.tasks, std::max(convolution, steps.cost)},
          {o_.heads, 2 * static_cast<double>(rows * o_.head_dim * o_.state)},
          ByRows(rows, kMoved * static_cast<double>(o_.inner()))};
}

void Mamba2Attention::Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const {
  if (step == 0) return Prepare(rows, task, scratch);
  if (step == 1) return Scan(rows, task);
  Finish(rows, FewRows(rows.count(), task));
}

void Mamba2Attention::Prepare(const RecurrentRows& rows, int64_t task, Scratch& scratch) const {
  const int64_t columns = t_.convolution.tasks();
  if (task < columns) {
    const Range part = t_.convolution.Columns(task);
    const Rows x = rows.Product(0).Cols(o_.inner() + part.begin, part.size());
    return t_.convolution.Apply(x, part, rows.state, rows.work.Cols(part.begin, part.size()), scratch);
  }
  const Range few = FewRows(rows.count(), task - columns);
  const Rows dt = rows.Product(0).Slice(few.begin, few.size()).Cols(o_.inner() + o_.channels(), o_.heads);
  const Matrix<float> work = rows.work.Rows(few.begin, few.size());
  const Matrix<float> steps = work.Cols(o_.channels(), o_.heads);
  TimeSteps(dt, t_.step_bias.data(), o_.steps, steps);
  Fadings(steps, t_.rates.data(), work.Cols(o_.channels() + o_.heads, o_.heads));
}

void Mamba2Attention::Scan(const RecurrentRows& rows, int64_t head) const {
  const int64_t group = head / (o_.heads / o_.groups), keys = o_.inner() + group * o_.state;
  const FadingRows scan{.keys = rows.work.Cols(keys, o_.state),
                        .queries = rows.work.Cols(keys + o_.groups * o_.state, o_.state),
                        .fadings = rows.work.Cols(o_.channels() + o_.heads + head, 1),
                        .shares = rows.work.Cols(o_.channels() + head, 1),
                        .skip = t_.skips[head]};
  float* state = rows.state + t_.convolution.state() + head * o_.state * o_.head_dim;
  FadingScan(scan, {state, o_.state, o_.head_dim, o_.head_dim},
             rows.work.Cols(head * o_.head_dim, o_.head_dim));
  MicroKernel::CountCall(2 * rows.count() * o_.state * o_.head_dim);
}

void Mamba2Attention::Finish(const RecurrentRows& rows, Range few) const {
  const Rows z = rows.Product(0).Slice(few.begin, few.size()).Cols(0, o_.inner());
  const Rows out = rows.out().Slice(few.begin, few.size());
  const Matrix<float> y = rows.work.Rows(few.begin, few.size()).Cols(0, o_.inner());
  switch (o_.norm) {
    case Options::Norm::kGateFirst:
      GateRows(Activation::kSilu, z, y, FloatRows(y));
      return Norm(y, out);
    case Options::Norm::kNormFirst:
      Norm(y, FloatRows(y));
      return GateRows(Activation::kSilu, z, y, out);
    case Options::Norm::kNone:
      GateRows(Activation::kSilu, z, y, out);
  }
}

void Mamba2Attention::Norm(Matrix<const float> y, const Rows& out) const {
  const int64_t group = o_.inner() / o_.norm_groups;
  for (int64_t c = 0; c < o_.inner(); c += group)
    RmsNorm({y.data + c, y.rows, group, y.stride}, t_.norm.data() + c, o_.eps, out.Cols(c, group));
}

Options ReadOptions(const AttentionSetting& setting, JsonFields& fields) {
  constexpr int64_t kMost = RecurrentAttention::kMostSide;
  constexpr double kMostStep = 3e38;
  Options o;
  o.heads = setting.num_heads;
  o.head_dim = fields.RequiredInt("head_dim", 1, kMost);
  o.state = fields.RequiredInt("state_size", 1, kMost);
  o.groups = fields.Int("num_groups", 1, 1, o.heads);
  o.kernel = CausalConvolution::ReadSize(fields);
  o.steps.least = static_cast<float>(fields.Number("time_step_min", 0, 0, kMostStep));
  o.steps.most = static_cast<float>(fields.Number("time_step_max", kMostStep, 0, kMostStep));
  const std::string norm = fields.Choice("norm", {"gate_first", "norm_first", "none"});
  o.norm = norm == "none"         ? Options::Norm::kNone
           : norm == "norm_first" ? Options::Norm::kNormFirst
                                  : Options::Norm::kGateFirst;
  o.norm_groups = fields.Int("norm_groups", 1, 1, o.inner());
  o.eps = static_cast<float>(fields.Number("norm_eps", 1e-5, 0, 1));
  if (o.heads % o.groups != 0)
    fields.Fail(Cat("num_groups: ", o.groups, " does not divide ", o.heads, " heads"));
  if (o.inner() % o.norm_groups != 0)
    fields.Fail(Cat("norm_groups: ", o.norm_groups, " does not divide ", o.inner(), " numbers"));
  if (o.steps.least > o.steps.most) fields.Fail("time_step_min is above time_step_max");
  return o;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewMamba2Attention(const AttentionSetting& setting,
                                                              JsonFields& fields, const WeightScope& scope) {
  const Options o = ReadOptions(setting, fields);
  RequireCausal(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  Tensors t;
  ASSIGN_OR_RETURN(t.in, LoadProduct(scope, "in", o.in(), setting.width));
  ASSIGN_OR_RETURN(t.convolution, CausalConvolution::Load(scope / "convolution",
                                                          {o.channels(), o.kernel, Activation::kSilu}));
  ASSIGN_OR_RETURN(t.rates, scope.Floats("a_log", {o.heads}));
  for (float& rate : t.rates) rate = -std::exp(rate);
  ASSIGN_OR_RETURN(t.skips, scope.Floats("d", {o.heads}));
  ASSIGN_OR_RETURN(t.step_bias, scope.Floats("dt_bias", {o.heads}));
  if (o.norm != Options::Norm::kNone) {
    ASSIGN_OR_RETURN(t.norm, scope.Floats("norm.weight", {o.inner()}));
  }
  return std::make_unique<Mamba2Attention>(o, std::move(t));
}

}  // namespace heed
