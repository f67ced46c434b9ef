// "kimi_delta": Kimi delta attention (Kimi team 2025): the gated delta rule, of which each number of a key
// fades at its own rate. A head's state is [key_dim, value_dim]:
//   [q, k, v] = silu(convolution([q, k, v])), causal;  q, k of length one, q / sqrt(key_dim)
//   beta = sigmoid(b),  g = -exp(a_log) softplus(f + dt_bias)
//   S = exp(g)' S, row by row,  S = S + k' (beta (v - k S)),  y = q S
//   out = RMS norm of each head's y, times sigmoid(gate)
// Options: key_dim, value_dim; kernel (4) taps of the convolution; norm_eps (1e-5); lower_bound (none) of g,
// below 0: then g = lower_bound sigmoid(exp(a_log) (f + dt_bias)); rank (0): f and gate are products of so
// many numbers, which are products of the input.
// Tensors: q, k, f [heads key_dim, hidden_size], v, gate [heads value_dim, hidden_size], b [heads,
// hidden_size], convolution.weight [of q, k, v side by side, kernel] and convolution.bias, a_log [heads],
// dt_bias [heads key_dim], norm.weight [value_dim]; with a rank f and gate read that many numbers, those of
// f_latent and gate_latent [rank, hidden_size].
// State: heads key_dim value_dim numbers and kernel - 1 rows before the convolution, whatever the length.
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

constexpr float kUnitEps = 1e-6f;  // of the lengths of q and k

struct Options {
  int64_t heads = 0, key_dim = 0, value_dim = 0, kernel = 4;
  float eps = 0;
  float bound = 0;   // of g; 0: none
  int64_t rank = 0;  // of what f and gate read; 0: the input

  int64_t keys() const { return heads * key_dim; }
  int64_t values() const { return heads * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }
};

enum Products { kQ, kK, kV, kF, kGate, kB, kProducts };

struct Tensors {
  std::vector<Product> products;
  CausalConvolution convolution;
  std::vector<float> rates;  // of each number of all keys: -exp(a_log), or exp(a_log) where g is bounded
  std::vector<float> step_bias, norm;
};

// What steps hand on of a row: q, k, v, how much of each of the state's rows stays, and each head's beta. y
// takes the place of v.
class KimiDeltaAttention : public RecurrentAttention {
 public:
  KimiDeltaAttention(const Options& options, Tensors tensors);
  std::vector<AttentionStage> Steps(int64_t rows) const override;
  void Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const override;

 private:
  void Convolve(const RecurrentRows& rows, int64_t task, Scratch& scratch) const;
  void Weigh(const RecurrentRows& rows, Range few) const;
  void Scan(const RecurrentRows& rows, int64_t head) const;
  void Finish(const RecurrentRows& rows, Range few) const;

  Options o_;
  Tensors t_;
};

KimiDeltaAttention::KimiDeltaAttention(const Options& options, Tensors tensors)
    : o_(options), t_(std::move(tensors)) {
  products_ = std::move(t_.products);
  out_width_ = o_.values();
  constant_bytes_ =
      t_.convolution.bytes() + (2 * o_.keys() + o_.value_dim) * static_cast<int64_t>(sizeof(float));
  sizes_.state = t_.convolution.state() + o_.values() * o_.key_dim;
  sizes_.work = o_.channels() + o_.keys() + o_.heads;
  sizes_.scratch = t_.convolution.ScratchBytes(kPiece, std::max(o_.key_dim, o_.value_dim));
  sizes_.row_cost = t_.convolution.RowCost() +
                    kMoved * static_cast<double>(o_.heads + 3 * o_.keys() + o_.values()) +
                    3 * static_cast<double>(o_.values() * o_.key_dim);
}

std::vector<AttentionStage> KimiDeltaAttention::Steps(int64_t rows) const {
  const auto n = static_cast<double>(rows);
  const AttentionStage weights = ByRows(rows, kMoved * static_cast<double>(o_.heads + o_.keys()));
  const double convolution = n * std::max(static_cast<double>(o_.key_dim) * (kMoved + o_.kernel),
                                          static_cast<double>(o_.value_dim * o_.kernel));
  return {{3 * o_.heads + weights.tasks, std::max(convolution, weights.cost)},
          {o_.heads, 3 * n * static_cast<double>(o_.key_dim * o_.value_dim)},
          ByRows(rows, kMoved * static_cast<double>(o_.values()))};
}

void KimiDeltaAttention::Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const {
  if (step == 0 && task < 3 * o_.heads) return Convolve(rows, task, scratch);
  if (step == 0) return Weigh(rows, FewRows(rows.count(), task - 3 * o_.heads));
  if (step == 1) return Scan(rows, task);
  Finish(rows, FewRows(rows.count(), task));
}

// A head of q, of k or of v.
void KimiDeltaAttention::Convolve(const RecurrentRows& rows, int64_t task, Scratch& scratch) const {
  const int product = static_cast<int>(task / o_.heads);
  const int64_t dim = product == kV ? o_.value_dim : o_.key_dim, head = task % o_.heads,
                begin = product * o_.keys() + head * dim;
  const Matrix<float> to = rows.work.Cols(begin, dim);
  t_.convolution.Apply(rows.Product(product).Cols(head * dim, dim), {begin, begin + dim}, rows.state, to,
                       scratch);
  if (product == kV) return;
  const double scale = product == kQ ? 1 / std::sqrt(static_cast<double>(dim)) : 1;
  ScaleToUnit(static_cast<float>(scale), kUnitEps, to);
}

void KimiDeltaAttention::Weigh(const RecurrentRows& rows, Range few) const {
  const Matrix<float> work = rows.work.Rows(few.begin, few.size()),
                      fadings = work.Cols(o_.channels(), o_.keys());
  const Rows f = rows.Product(kF).Slice(few.begin, few.size());
  if (o_.bound < 0) {
    BoundedFadings(f, t_.rates.data(), t_.step_bias.data(), o_.bound, fadings);
  } else {
    TimeSteps(f, t_.step_bias.data(), {}, fadings);
    Fadings(fadings, t_.rates.data(), fadings);
  }
  Sigmoid(rows.Product(kB).Slice(few.begin, few.size()), work.Cols(o_.channels() + o_.keys(), o_.heads));
}

void KimiDeltaAttention::Scan(const RecurrentRows& rows, int64_t head) const {
  const int64_t key = head * o_.key_dim, side = o_.key_dim * o_.value_dim;
  const DeltaRows scan{.keys = rows.work.Cols(o_.keys() + key, o_.key_dim),
                       .queries = rows.work.Cols(key, o_.key_dim),
                       .fadings = rows.work.Cols(o_.channels() + key, o_.key_dim),
                       .betas = rows.work.Cols(o_.channels() + o_.keys() + head, 1)};
  float* state = rows.state + t_.convolution.state() + head * side;
  DeltaScan(scan, {state, o_.key_dim, o_.value_dim, o_.value_dim},
            rows.work.Cols(2 * o_.keys() + head * o_.value_dim, o_.value_dim));
  MicroKernel::CountCall(3 * rows.count() * side);
}

void KimiDeltaAttention::Finish(const RecurrentRows& rows, Range few) const {
  const Matrix<float> y = rows.work.Rows(few.begin, few.size()).Cols(2 * o_.keys(), o_.values());
  for (int64_t c = 0; c < o_.values(); c += o_.value_dim) {
    const Matrix<float> head = y.Cols(c, o_.value_dim);
    RmsNorm(head, t_.norm.data(), o_.eps, FloatRows(head));
  }
  MultiplyBySigmoid(rows.Product(kGate).Slice(few.begin, few.size()), FloatRows(y));
  Convert(FloatRows(y), rows.out().Slice(few.begin, few.size()));
}

absl::StatusOr<std::vector<Product>> LoadKimiDeltaProducts(const Options& o, int64_t width,
                                                           const WeightScope& scope) {
  const int64_t low = o.rank > 0 ? o.rank : width;
  struct Sizes {
    const char* name;
    int64_t out, in;
  };
  const Sizes all[kProducts] = {{"q", o.keys(), width}, {"k", o.keys(), width},    {"v", o.values(), width},
                                {"f", o.keys(), low},   {"gate", o.values(), low}, {"b", o.heads, width}};
  std::vector<Product> products;
  for (const auto& [name, out, in] : all) {
    ASSIGN_OR_RETURN(products.emplace_back(), LoadProduct(scope, name, out, in));
  }
  if (o.rank == 0) return products;
  for (const int product : {kF, kGate}) {
    products[product].of = static_cast<int>(products.size());
    ASSIGN_OR_RETURN(products.emplace_back(),
                     LoadProduct(scope, products[product].name + "_latent", o.rank, width));
  }
  return products;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewKimiDeltaAttention(const AttentionSetting& setting,
                                                                 JsonFields& fields,
                                                                 const WeightScope& scope) {
  constexpr int64_t kMost = RecurrentAttention::kMostSide;
  constexpr double kLeastBound = -1e3, kMostBound = -1e-3;
  Options o;
  o.heads = setting.num_heads;
  o.key_dim = fields.RequiredInt("key_dim", 1, kMost);
  o.value_dim = fields.RequiredInt("value_dim", 1, kMost);
  o.kernel = CausalConvolution::ReadSize(fields);
  o.eps = static_cast<float>(fields.Number("norm_eps", 1e-5, 0, 1));
  if (fields.Has("lower_bound"))
    o.bound = static_cast<float>(fields.Number("lower_bound", kMostBound, kLeastBound, kMostBound));
  fields.Ignore("lower_bound");
  o.rank = fields.Int("rank", 0, 1, kMost);
  RequireCausal(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  Tensors t;
  ASSIGN_OR_RETURN(t.products, LoadKimiDeltaProducts(o, setting.width, scope));
  ASSIGN_OR_RETURN(t.convolution, CausalConvolution::Load(scope / "convolution",
                                                          {o.channels(), o.kernel, Activation::kSilu}));
  ASSIGN_OR_RETURN(const std::vector<float> rates, scope.Floats("a_log", {o.heads}));
  for (const float rate : rates)
    t.rates.insert(t.rates.end(), o.key_dim, o.bound < 0 ? std::exp(rate) : -std::exp(rate));
  ASSIGN_OR_RETURN(t.step_bias, scope.Floats("dt_bias", {o.keys()}));
  ASSIGN_OR_RETURN(t.norm, scope.Floats("norm.weight", {o.value_dim}));
  return std::make_unique<KimiDeltaAttention>(o, std::move(t));
}

}  // namespace heed
