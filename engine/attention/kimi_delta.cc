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
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/delta_attention.h"
#include "engine/base/status.h"
#include "engine/ops/gates.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

enum OwnProducts { kF = 3, kGate = 4 };

class KimiDeltaAttention : public DeltaAttention {
 public:
  // bound: of g; 0: none.
  KimiDeltaAttention(const DeltaOptions& options, float bound, DeltaTensors tensors)
      : DeltaAttention(options, std::move(tensors)), bound_(bound) {}

 protected:
  void Fade(const RecurrentRows& rows, Range few, Matrix<float> fadings) const override;
  void Gate(const RecurrentRows& rows, Range few, Matrix<float> y) const override;

 private:
  float bound_;
};

void KimiDeltaAttention::Fade(const RecurrentRows& rows, Range few, Matrix<float> fadings) const {
  const float *rates = tensors().rates.data(), *bias = tensors().step_bias.data();
  const Rows f = rows.Product(kF).Slice(few.begin, few.size());
  if (bound_ < 0) return BoundedFadings(f, rates, bias, bound_, fadings);
  TimeSteps(f, bias, {}, fadings);
  Fadings(fadings, rates, fadings);
}

void KimiDeltaAttention::Gate(const RecurrentRows& rows, Range few, Matrix<float> y) const {
  MultiplyBySigmoid(rows.Product(kGate).Slice(few.begin, few.size()), FloatRows(y));
  Convert(FloatRows(y), rows.out().Slice(few.begin, few.size()));
}

absl::StatusOr<std::vector<Product>> LoadKimiDeltaProducts(const DeltaOptions& o, int64_t rank, int64_t width,
                                                           const WeightScope& scope) {
  const int64_t low = rank > 0 ? rank : width;
  struct Sizes {
    const char* name;
    int64_t out, in;
  };
  const Sizes all[] = {{"q", o.keys(), width}, {"k", o.keys(), width},    {"v", o.values(), width},
                       {"f", o.keys(), low},   {"gate", o.values(), low}, {"b", o.heads, width}};
  std::vector<Product> products;
  for (const auto& [name, out, in] : all) {
    ASSIGN_OR_RETURN(products.emplace_back(), LoadProduct(scope, name, out, in));
  }
  if (rank == 0) return products;
  for (const int product : {kF, kGate}) {
    products[product].of = static_cast<int>(products.size());
    ASSIGN_OR_RETURN(products.emplace_back(),
                     LoadProduct(scope, products[product].name + "_latent", rank, width));
  }
  return products;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewKimiDeltaAttention(const AttentionSetting& setting,
                                                                 JsonFields& fields,
                                                                 const WeightScope& scope) {
  constexpr int64_t kMost = RecurrentAttention::kMostSide;
  constexpr double kLeastBound = -1e3, kMostBound = -1e-3;
  DeltaOptions o;
  o.heads = o.key_heads = setting.num_heads;
  o.key_dim = o.fadings = fields.RequiredInt("key_dim", 1, kMost);
  o.value_dim = fields.RequiredInt("value_dim", 1, kMost);
  o.kernel = CausalConvolution::ReadSize(fields);
  o.eps = static_cast<float>(fields.Number("norm_eps", 1e-5, 0, 1));
  float bound = 0;
  if (fields.Has("lower_bound"))
    bound = static_cast<float>(fields.Number("lower_bound", kMostBound, kLeastBound, kMostBound));
  fields.Ignore("lower_bound");
  const int64_t rank = fields.Int("rank", 0, 1, kMost);
  RequireCausal(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadKimiDeltaProducts(o, rank, setting.width, scope));
  ASSIGN_OR_RETURN(DeltaTensors tensors, LoadDeltaTensors(o, std::move(products), scope));
  if (bound < 0) {
    for (float& rate : tensors.rates) rate = -rate;
  }
  return std::make_unique<KimiDeltaAttention>(o, bound, std::move(tensors));
}

}  // namespace heed
