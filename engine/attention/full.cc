// "full": softmax(Q K' / sqrt(head_dim)) V (Vaswani et al. 2017), causal in a decoder. No options.
#include <cmath>

#include "engine/attention/pattern_attention.h"
#include "engine/base/status.h"

namespace heed {

absl::StatusOr<std::unique_ptr<Attention>> NewFullAttention(const AttentionSetting& setting,
                                                            JsonFields& fields, const WeightScope& scope) {
  PatternOptions options;
  options.heads = options.key_value_heads = setting.num_heads;
  options.head_dim = HeadDim(setting, fields);
  RETURN_IF_ERROR(fields.Finish());
  options.scale = 1 / std::sqrt(static_cast<double>(options.head_dim));
  const bool causal = setting.causal && !setting.cross;
  options.patterns = {std::make_shared<BandPattern>(Band{.right = causal ? 0 : kUnlimited})};
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  return std::make_unique<PatternAttention>(setting, std::move(options), std::move(products));
}

}  // namespace heed
