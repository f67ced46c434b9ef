// "gated_delta": the gated delta rule (Yang et al. 2024), as Qwen3-Next's linear layers have it. A head's
// state, [key_dim, value_dim], fades, and what it holds for a key moves towards the key's value:
//   [q, k, v] = silu(convolution([q, k, v])), causal;  q, k of length one, q / sqrt(key_dim)
//   beta = sigmoid(b),  g = -exp(a_log) softplus(a + dt_bias)
//   S = exp(g) S,  S = S + k' (beta (v - k S)),  y = q S
//   out = RMS norm of each head's y, times silu(gate)
// A key head serves heads / num_key_heads heads, one after another.
// Options: key_dim, value_dim; num_key_heads (the heads); kernel (4) taps of the convolution; norm_eps
// (1e-6); negative_eigenvalues (false): beta is twice that (Grazzi et al. 2024).
// Tensors: q, k [num_key_heads key_dim, hidden_size], v, gate [heads value_dim, hidden_size], a, b [heads,
// hidden_size], convolution.weight [of q, k, v side by side, kernel] and convolution.bias, a_log, dt_bias
// [heads], norm.weight [value_dim].
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
  int64_t heads = 0, key_heads = 0, key_dim = 0, value_dim = 0, kernel = 4;
  float eps = 0;
  bool negative = false;  // eigenvalues

  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return heads * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }
};

enum Products { kQ, kK, kV, kGate, kA, kB, kProducts };

struct Tensors {
  std::vector<Product> products;
  CausalConvolution convolution;
  std::vector<float> rates;  // -exp(a_log)
  std::vector<float> step_bias, norm;
};

// What steps hand on of a row: q, k, v, then how much of each head's state stays, and its beta. y takes the
// place of v.
class GatedDeltaAttention : public RecurrentAttention {
 public:
  GatedDeltaAttention(const Options& options, Tensors tensors);
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

GatedDeltaAttention::GatedDeltaAttention(const Options& options, Tensors tensors)
    : o_(options), t_(std::move(tensors)) {
  products_ = std::move(t_.products);
  out_width_ = o_.values();
  constant_bytes_ =
      t_.convolution.bytes() + (2 * o_.heads + o_.value_dim) * static_cast<int64_t>(sizeof(float));
  sizes_.state = t_.convolution.state() + o_.values() * o_.key_dim;
  sizes_.work = o_.channels() + 2 * o_.heads;
  sizes_.scratch = t_.convolution.ScratchBytes(kPiece, std::max(o_.key_dim, o_.value_dim));
  sizes_.row_cost = t_.convolution.RowCost() +
                    kMoved * static_cast<double>(2 * o_.heads + 2 * o_.keys() + o_.values()) +
                    3 * static_cast<double>(o_.values() * o_.key_dim);
}

std::vector<AttentionStage> GatedDeltaAttention::Steps(int64_t rows) const {
  const auto n = static_cast<double>(rows);
  const AttentionStage weights = ByRows(rows, 2 * kMoved * static_cast<double>(o_.heads));
  const double convolution = n * std::max(static_cast<double>(o_.key_dim) * (kMoved + o_.kernel),
                                          static_cast<double>(o_.value_dim * o_.kernel));
  return {{2 * o_.key_heads + o_.heads + weights.tasks, std::max(convolution, weights.cost)},
          {o_.heads, 3 * n * static_cast<double>(o_.key_dim * o_.value_dim)},
          ByRows(rows, kMoved * static_cast<double>(o_.values()))};
}

void GatedDeltaAttention::Do(const RecurrentRows& rows, int step, int64_t task, Scratch& scratch) const {
  const int64_t heads = 2 * o_.key_heads + o_.heads;
  if (step == 0 && task < heads) return Convolve(rows, task, scratch);
  if (step == 0) return Weigh(rows, FewRows(rows.count(), task - heads));
  if (step == 1) return Scan(rows, task);
  Finish(rows, FewRows(rows.count(), task));
}

// A head of q, of k or of v.
void GatedDeltaAttention::Convolve(const RecurrentRows& rows, int64_t task, Scratch& scratch) const {
  const int product = task < o_.key_heads ? kQ : task < 2 * o_.key_heads ? kK : kV;
  const int64_t dim = product == kV ? o_.value_dim : o_.key_dim, head = task - product * o_.key_heads,
                begin = product * o_.keys() + head * dim;
  const Matrix<float> to = rows.work.Cols(begin, dim);
  t_.convolution.Apply(rows.Product(product).Cols(head * dim, dim), {begin, begin + dim}, rows.state, to,
                       scratch);
  if (product == kV) return;
  const double scale = product == kQ ? 1 / std::sqrt(static_cast<double>(dim)) : 1;
  ScaleToUnit(static_cast<float>(scale), kUnitEps, to);
}

void GatedDeltaAttention::Weigh(const RecurrentRows& rows, Range few) const {
  const Matrix<float> work = rows.work.Rows(few.begin, few.size()),
                      fadings = work.Cols(o_.channels(), o_.heads);
  TimeSteps(rows.Product(kA).Slice(few.begin, few.size()), t_.step_bias.data(), {}, fadings);
  Fadings(fadings, t_.rates.data(), fadings);
  Sigmoid(rows.Product(kB).Slice(few.begin, few.size()), work.Cols(o_.channels() + o_.heads, o_.heads));
}

void GatedDeltaAttention::Scan(const RecurrentRows& rows, int64_t head) const {
  const int64_t key_head = head / (o_.heads / o_.key_heads), side = o_.key_dim * o_.value_dim;
  const DeltaRows scan{.keys = rows.work.Cols(o_.keys() + key_head * o_.key_dim, o_.key_dim),
                       .queries = rows.work.Cols(key_head * o_.key_dim, o_.key_dim),
                       .fadings = rows.work.Cols(o_.channels() + head, 1),
                       .betas = rows.work.Cols(o_.channels() + o_.heads + head, 1),
                       .factor = o_.negative ? 2.0f : 1.0f};
  float* state = rows.state + t_.convolution.state() + head * side;
  DeltaScan(scan, {state, o_.key_dim, o_.value_dim, o_.value_dim},
            rows.work.Cols(2 * o_.keys() + head * o_.value_dim, o_.value_dim));
  MicroKernel::CountCall(3 * rows.count() * side);
}

void GatedDeltaAttention::Finish(const RecurrentRows& rows, Range few) const {
  const Matrix<float> y = rows.work.Rows(few.begin, few.size()).Cols(2 * o_.keys(), o_.values());
  for (int64_t c = 0; c < o_.values(); c += o_.value_dim) {
    const Matrix<float> head = y.Cols(c, o_.value_dim);
    RmsNorm(head, t_.norm.data(), o_.eps, FloatRows(head));
  }
  GateRows(Activation::kSilu, rows.Product(kGate).Slice(few.begin, few.size()), y,
           rows.out().Slice(few.begin, few.size()));
}

absl::StatusOr<std::vector<Product>> LoadGatedDeltaProducts(const Options& o, int64_t width,
                                                            const WeightScope& scope) {
  const std::pair<const char*, int64_t> outputs[kProducts] = {{"q", o.keys()},   {"k", o.keys()},
                                                              {"v", o.values()}, {"gate", o.values()},
                                                              {"a", o.heads},    {"b", o.heads}};
  std::vector<Product> products;
  for (const auto& [name, out] : outputs) {
    ASSIGN_OR_RETURN(products.emplace_back(), LoadProduct(scope, name, out, width));
  }
  return products;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewGatedDeltaAttention(const AttentionSetting& setting,
                                                                  JsonFields& fields,
                                                                  const WeightScope& scope) {
  constexpr int64_t kMost = RecurrentAttention::kMostSide;
  Options o;
  o.heads = setting.num_heads;
  o.key_heads = fields.Int("num_key_heads", o.heads, 1, o.heads);
  o.key_dim = fields.RequiredInt("key_dim", 1, kMost);
  o.value_dim = fields.RequiredInt("value_dim", 1, kMost);
  o.kernel = CausalConvolution::ReadSize(fields);
  o.eps = static_cast<float>(fields.Number("norm_eps", 1e-6, 0, 1));
  o.negative = fields.Bool("negative_eigenvalues", false);
  if (o.heads % o.key_heads != 0)
    fields.Fail(Cat("num_key_heads: ", o.key_heads, " does not divide ", o.heads, " heads"));
  RequireCausal(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  Tensors t;
  ASSIGN_OR_RETURN(t.products, LoadGatedDeltaProducts(o, setting.width, scope));
  ASSIGN_OR_RETURN(t.convolution, CausalConvolution::Load(scope / "convolution",
                                                          {o.channels(), o.kernel, Activation::kSilu}));
  ASSIGN_OR_RETURN(t.rates, scope.Floats("a_log", {o.heads}));
  for (float& rate : t.rates) rate = -std::exp(rate);
  ASSIGN_OR_RETURN(t.step_bias, scope.Floats("dt_bias", {o.heads}));
  ASSIGN_OR_RETURN(t.norm, scope.Floats("norm.weight", {o.value_dim}));
  return std::make_unique<GatedDeltaAttention>(o, std::move(t));
}

}  // namespace heed
