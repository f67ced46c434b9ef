// "full": softmax(Q K' / sqrt(head_dim)) V (Vaswani et al. 2017), causal in a decoder. No options.
#include "engine/attention/pattern_attention.h"

namespace heed {

absl::StatusOr<std::unique_ptr<Attention>> NewFullAttention(const AttentionSetting& setting,
                                                            JsonFields& fields, const WeightScope& scope) {
  const bool causal = setting.causal && !setting.cross;
  return NewPatternAttention(setting, fields, scope,
                             {std::make_shared<BandPattern>(Band{.right = causal ? 0 : kUnlimited})});
}

}  // namespace heed
