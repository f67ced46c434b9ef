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
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/delta_attention.h"
#include "engine/base/status.h"
#include "engine/ops/gates.h"

namespace heed {
namespace {

enum OwnProducts { kGate = 3, kA = 4 };

class GatedDeltaAttention : public DeltaAttention {
 public:
  using DeltaAttention::DeltaAttention;

 protected:
  void Fade(const RecurrentRows& rows, Range few, Matrix<float> fadings) const override;
  void Gate(const RecurrentRows& rows, Range few, Matrix<float> y) const override;
};

void GatedDeltaAttention::Fade(const RecurrentRows& rows, Range few, Matrix<float> fadings) const {
  TimeSteps(rows.Product(kA).Slice(few.begin, few.size()), tensors().step_bias.data(), {}, fadings);
  Fadings(fadings, tensors().rates.data(), fadings);
}

void GatedDeltaAttention::Gate(const RecurrentRows& rows, Range few, Matrix<float> y) const {
  GateRows(Activation::kSilu, rows.Product(kGate).Slice(few.begin, few.size()), y,
           rows.out().Slice(few.begin, few.size()));
}

absl::StatusOr<std::vector<Product>> LoadGatedDeltaProducts(const DeltaOptions& o, int64_t width,
                                                            const WeightScope& scope) {
  const std::pair<const char*, int64_t> outputs[] = {{"q", o.keys()},      {"k", o.keys()}, {"v", o.values()},
                                                     {"gate", o.values()}, {"a", o.heads},  {"b", o.heads}};
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
  DeltaOptions o;
  o.heads = setting.num_heads;
  o.key_heads = fields.Int("num_key_heads", o.heads, 1, o.heads);
  o.key_dim = fields.RequiredInt("key_dim", 1, kMost);
  o.value_dim = fields.RequiredInt("value_dim", 1, kMost);
  o.kernel = CausalConvolution::ReadSize(fields);
  o.eps = static_cast<float>(fields.Number("norm_eps", 1e-6, 0, 1));
  o.factor = fields.Bool("negative_eigenvalues", false) ? 2 : 1;
  if (o.heads % o.key_heads != 0)
    fields.Fail(Cat("num_key_heads: ", o.key_heads, " does not divide ", o.heads, " heads"));
  RequireCausal(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadGatedDeltaProducts(o, setting.width, scope));
  ASSIGN_OR_RETURN(DeltaTensors tensors, LoadDeltaTensors(o, std::move(products), scope));
  return std::make_unique<GatedDeltaAttention>(o, std::move(tensors));
}

}  // namespace heed
