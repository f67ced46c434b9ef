// "mamba": the selective state-space layer (Gu and Dao 2023), of Mamba, Falcon Mamba and Jamba. Each of
// inner_size channels has state_size numbers, which fade by what the row itself says:
//   [x, z] = in(row);  x = silu(convolution(x)), causal
//   [t, B, C] = product x, each RMS normed if norm_eps is given
//   dt = softplus(dt product t + dt bias)
//   s_n = exp(-exp(a_log_n) dt) s_n + B_n dt x,  y = sum over n of C_n s_n + d x
//   out = y silu(z)
// Options: inner_size, state_size, time_step_rank; kernel (4) taps of the convolution; norm_eps: t, B and C
// are normed, with weights where the file has them. Tensors: in [2 inner_size, hidden_size],
// convolution.weight [inner_size, kernel] and convolution.bias, x [time_step_rank + 2 state_size,
// inner_size], dt [inner_size, time_step_rank] with its bias, a_log [inner_size, state_size], d [inner_size];
// t_norm.weight, b_norm.weight, c_norm.weight. State: inner_size state_size numbers and kernel - 1 rows
// before the convolution, whatever the length.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/causal_convolution.h"
#include "engine/attention/recurrence.h"
#include "engine/base/round.h"
#include "engine/base/status.h"
#include "engine/ops/gates.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/recurrence.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kChannels = 64;  // that a task takes through the recurrence
constexpr int64_t kMostInner = 1 << 17;
constexpr double kMostRowCost = 1 << 24;  // of the products of x
constexpr double kFading = 4;             // what an exponential costs, in multiply-adds
constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

struct Options {
  int64_t inner = 0, state = 0, rank = 0, kernel = 4;
  bool normed = false;
  float eps = 0;
  Precision precision = Precision::kF32;  // of the products of x

  int64_t selected() const { return rank + 2 * state; }
  double product_cost() const { return static_cast<double>(inner) * static_cast<double>(selected() + rank); }
};

struct Tensors {
  Product in;
  CausalConvolution convolution;
  PackedWeights selection, steps;
  std::vector<float> rates;  // [state, inner], -exp(a_log)
  std::vector<float> skips, step_bias;
  std::vector<float> norm;  // of t, B, C side by side
};

// What steps hand on of a row: x, dt, B, C. y takes the place of x.
class MambaAttention : public RecurrentAttention {
 public:
  MambaAttention(const Options& options, Tensors tensors);
  std::vector<AttentionStage> Steps(int64_t rows) const override;
  void Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const override;

 private:
  static Rows Take(DType type, int64_t rows, int64_t cols, Scratch& scratch);
  static int64_t Bytes(DType type, int64_t cols);
  void Convolve(const RecurrentRows& rows, int64_t task, Scratch& scratch) const;
  void Select(const RecurrentRows& rows, Range few, Scratch& scratch) const;
  void Scan(const RecurrentRows& rows, Range channels) const;

  Options o_;
  Tensors t_;
  DType type_;
};

MambaAttention::MambaAttention(const Options& options, Tensors tensors)
    : o_(options), t_(std::move(tensors)), type_(ActivationType(options.precision)) {
  products_ = {t_.in};
  t_.in = {};
  out_width_ = o_.inner;
  constant_bytes_ = t_.convolution.bytes() + t_.selection.bytes() + t_.steps.bytes() +
                    (std::ssize(t_.rates) + 2 * o_.inner + std::ssize(t_.norm)) * kFloat;
  sizes_.state = t_.convolution.state() + o_.inner * o_.state;
  sizes_.work = 2 * (o_.inner + o_.state);
  const int64_t selecting = Bytes(type_, o_.inner) + Bytes(DType::kF32, o_.selected()) +
                            Bytes(type_, o_.rank) +
                            std::max(GemmOfActivationsScratchBytes(o_.precision, kFewRows, o_.inner),
                                     GemmOfActivationsScratchBytes(o_.precision, kFewRows, o_.rank));
  sizes_.scratch = std::max(t_.convolution.ScratchBytes(kPiece), selecting);
  sizes_.row_cost =
      t_.convolution.RowCost() + o_.product_cost() +
      static_cast<double>(o_.inner) * (static_cast<double>(o_.state) * (2 + kFading) + 2 * kMoved);
}

std::vector<AttentionStage> MambaAttention::Steps(int64_t rows) const {
  const double recurrence = static_cast<double>(o_.state) * (2 + kFading) + kMoved;
  return {{t_.convolution.tasks(), static_cast<double>(rows) * t_.convolution.TaskRowCost()},
          ByRows(rows, o_.product_cost() + kMoved * static_cast<double>(o_.inner)),
          {Quotient(o_.inner, kChannels),
           static_cast<double>(rows * std::min(o_.inner, kChannels)) * recurrence}};
}

void MambaAttention::Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const {
  if (step == 0) return Convolve(rows, task, scratch);
  if (step == 1) return Select(rows, FewRows(rows.count(), task), scratch);
  Scan(rows, {task * kChannels, std::min(o_.inner, (task + 1) * kChannels)});
}

void MambaAttention::Convolve(const RecurrentRows& rows, int64_t task, Scratch& scratch) const {
  const Range part = t_.convolution.Columns(task);
  t_.convolution.Apply(rows.Product(0).Cols(part.begin, part.size()), part, rows.state,
                       rows.work.Cols(part.begin, part.size()), scratch);
}

// Rows as products read and write them: as many as they may read, pairs of numbers whole. No power of two
// lies between them.
Rows MambaAttention::Take(DType type, int64_t rows, int64_t cols, Scratch& scratch) {
  const int64_t pitch = RoundUp(cols, 32) + 32, bytes = kFewRows * pitch * SizeOf(type);
  const Rows taken{type, scratch.Take<char>(bytes), rows, cols, pitch};
  if (cols % 2 == 1) std::memset(taken.data, 0, bytes);
  return taken;
}

int64_t MambaAttention::Bytes(DType type, int64_t cols) {
  return Scratch::Piece(kFewRows * (RoundUp(cols, 32) + 32) * SizeOf(type));
}

void MambaAttention::Select(const RecurrentRows& rows, Range few, Scratch& scratch) const {
  const Matrix<float> work = rows.work.Rows(few.begin, few.size()), steps = work.Cols(o_.inner, o_.inner);
  const Rows x = Take(type_, few.size(), o_.inner, scratch),
             selected = Take(DType::kF32, few.size(), o_.selected(), scratch),
             t = Take(type_, few.size(), o_.rank, scratch);
  Team alone;
  Convert(FloatRows(work.Cols(0, o_.inner)), x);
  GemmOfActivations(alone, x, t_.selection, {.out = selected}, scratch);
  const Range parts[] = {{0, o_.rank}, {o_.rank, o_.rank + o_.state}, {o_.rank + o_.state, o_.selected()}};
  for (const Range& part : parts) {
    const Rows numbers = selected.Cols(part.begin, part.size());
    if (o_.normed) RmsNorm(numbers.As<float>(), t_.norm.data() + part.begin, o_.eps, numbers);
  }
  Convert(selected.Cols(o_.rank, 2 * o_.state), FloatRows(work.Cols(2 * o_.inner, 2 * o_.state)));
  Convert(selected.Cols(0, o_.rank), t);
  GemmOfActivations(alone, t, t_.steps, {.out = FloatRows(steps)}, scratch);
  TimeSteps(FloatRows(steps), t_.step_bias.data(), {}, steps);
}

void MambaAttention::Scan(const RecurrentRows& rows, Range channels) const {
  const int64_t begin = channels.begin, count = channels.size();
  const ChannelRows scan{.steps = rows.work.Cols(o_.inner + begin, count),
                         .inputs = rows.work.Cols(2 * o_.inner, o_.state),
                         .outputs = rows.work.Cols(2 * o_.inner + o_.state, o_.state),
                         .rates = {t_.rates.data() + begin, o_.state, count, o_.inner},
                         .skips = t_.skips.data() + begin};
  const Matrix<float> x = rows.work.Cols(begin, count);
  ChannelScan(scan, {rows.state + t_.convolution.state() + begin, o_.state, count, o_.inner}, x);
  GateRows(Activation::kSilu, rows.Product(0).Cols(o_.inner + begin, count), x,
           rows.out().Cols(begin, count));
  MicroKernel::CountCall(2 * rows.count() * count * o_.state);
}

Options ReadOptions(const AttentionSetting& setting, JsonFields& fields) {
  Options o;
  o.inner = fields.RequiredInt("inner_size", 1, kMostInner);
  o.state = fields.RequiredInt("state_size", 1, RecurrentAttention::kMostSide);
  o.rank = fields.RequiredInt("time_step_rank", 1, kMostInner);
  o.kernel = CausalConvolution::ReadSize(fields);
  o.normed = fields.Has("norm_eps");
  o.eps = static_cast<float>(fields.Number("norm_eps", 0, 0, 1));
  // Rounded to int8, they would decide otherwise how long is remembered.
  o.precision = setting.precision != Precision::kInt8               ? setting.precision
                : ActivationType(setting.precision) == DType::kBf16 ? Precision::kBf16
                                                                    : Precision::kF32;
  if (o.product_cost() > kMostRowCost)
    fields.Fail(Cat("time_step_rank: ", o.rank, " and state_size: ", o.state,
                    " are too many for inner_size: ", o.inner));
  return o;
}

absl::Status LoadNorms(const Options& o, const WeightScope& scope, std::vector<float>& norm) {
  if (!o.normed) return absl::OkStatus();
  const std::pair<const char*, int64_t> norms[] = {
      {"t_norm.weight", o.rank}, {"b_norm.weight", o.state}, {"c_norm.weight", o.state}};
  for (const auto& [name, size] : norms) {
    ASSIGN_OR_RETURN(const Tensor weight, scope.Optional(name, {size}));
    const std::vector<float> numbers =
        weight.data == nullptr ? std::vector<float>(size, 1.0f) : ToFloats(weight);
    norm.insert(norm.end(), numbers.begin(), numbers.end());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewMambaAttention(const AttentionSetting& setting,
                                                             JsonFields& fields, const WeightScope& scope) {
  const Options o = ReadOptions(setting, fields);
  RequireCausal(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  Tensors t;
  ASSIGN_OR_RETURN(t.in, LoadProduct(scope, "in", 2 * o.inner, setting.width));
  ASSIGN_OR_RETURN(t.convolution,
                   CausalConvolution::Load(scope / "convolution", {o.inner, o.kernel, Activation::kSilu}));
  ASSIGN_OR_RETURN(const Tensor selection, (scope / "x").Get("weight", {o.selected(), o.inner}));
  ASSIGN_OR_RETURN(const Tensor steps, (scope / "dt").Get("weight", {o.inner, o.rank}));
  t.selection = PackedWeights::Pack({{selection, Tensor()}}, o.precision);
  t.steps = PackedWeights::Pack({{steps, Tensor()}}, o.precision);
  ASSIGN_OR_RETURN(const std::vector<float> rates, scope.Floats("a_log", {o.inner, o.state}));
  t.rates.resize(rates.size());
  for (int64_t c = 0; c < o.inner; ++c) {
    for (int64_t n = 0; n < o.state; ++n) t.rates[n * o.inner + c] = -std::exp(rates[c * o.state + n]);
  }
  ASSIGN_OR_RETURN(t.skips, scope.Floats("d", {o.inner}));
  ASSIGN_OR_RETURN(t.step_bias, (scope / "dt").Floats("bias", {o.inner}));
  RETURN_IF_ERROR(LoadNorms(o, scope, t.norm));
  return std::make_unique<MambaAttention>(o, std::move(t));
}

}  // namespace heed
