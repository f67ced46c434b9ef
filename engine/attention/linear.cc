// "linear": Linear Transformer (Katharopoulos et al. 2020). With phi(x) = elu(x) + 1 the softmax becomes a
// product, so that the past fits into a matrix and a vector a head, whatever its length (linear_scan.h):
//   out_i = phi(q_i) S / (phi(q_i) . z + eps)
//   S = sum of phi(k_j)' v_j,  z = sum of phi(k_j),  over all j, causal over j <= i
// No 1/sqrt(head_dim). An encoder and cross-attention attend to the sums over all rows.
//   eps (1e-6)  added to the normaliser
#include <utility>
#include <vector>

#include "engine/attention/scan_attention.h"
#include "engine/base/status.h"
#include "engine/ops/scan.h"

namespace heed {

absl::StatusOr<std::unique_ptr<Attention>> NewLinearAttention(const AttentionSetting& setting,
                                                              JsonFields& fields, const WeightScope& scope) {
  LinearScan::Options options;
  options.head_dim = options.features = HeadDim(setting, fields);
  options.eps = fields.Number("eps", 1e-6, 0, 1);
  RETURN_IF_ERROR(fields.Finish());
  options.feature_map = [](const Rows& x, const Rows& features, float*, Scratch&) {
    EluPlusOne(x, features);
  };
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadScanProducts(setting, scope));
  return NewScanAttention(setting, {ActivationType(setting.precision), std::move(options)},
                          std::move(products), 0);
}

}  // namespace heed
