// "full": softmax(Q K' / sqrt(head_dim)) V (Vaswani et al. 2017), causal in a decoder. No options.
#include <cmath>

#include "engine/attention/dot_product.h"
#include "engine/base/status.h"

namespace heed {

absl::StatusOr<std::unique_ptr<Attention>> NewFullAttention(const AttentionSetting& setting,
                                                            JsonFields& fields, const WeightScope& scope) {
  DotProductOptions options;
  options.heads = options.key_value_heads = setting.num_heads;
  options.head_dim = HeadDim(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  options.scale = 1 / std::sqrt(static_cast<double>(options.head_dim));
  options.causal = setting.causal && !setting.cross;
  return NewDotProductAttention(setting, std::move(options), scope);
}

}  // namespace heed
