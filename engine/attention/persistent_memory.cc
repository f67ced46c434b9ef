// "persistent_memory": the all-attention layer (Sukhbaatar et al. 2019): learned keys and values join those
// of the context under one softmax, and with no feed-forward beside it are what that layer knew.
//   softmax([Q K' | Q pk'] / sqrt(head_dim)) [V ; pv]
// Options: slots, may be 0; window (none, or 0): in a decoder the newest tokens that one sees, itself
// included, in an
//   encoder half of it to either side.
// Tensors: q, k, v; pk, pv [heads, slots, head_dim], as they are used.
// State: keys and values of the window; pk and pv are shared. Decoding is exact.
#include <vector>

#include "engine/attention/pattern_attention.h"
#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

constexpr int64_t kMostSlots = 1 << 20;

// [heads, slots, head_dim] each, packed.
std::vector<KeyValuePages> Pack(const std::vector<float>& keys, const std::vector<float>& values,
                                int64_t slots, const PatternOptions& options, DType type) {
  const int64_t dim = options.head_dim;
  std::vector<KeyValuePages> heads;
  Buffer memory(2 * slots * dim * SizeOf(type));
  const Rows k{type, memory.as<char>(), slots, dim, dim}, v{type, k.at(slots), slots, dim, dim};
  for (int head = 0; head < options.heads; ++head) {
    const auto convert = [&](const std::vector<float>& from, const Rows& to) {
      Convert({DType::kF32, const_cast<float*>(from.data()) + head * slots * dim, slots, dim, dim}, to);
    };
    convert(keys, k);
    convert(values, v);
    heads.emplace_back(type, dim).Append(k, v);
  }
  return heads;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewPersistentMemoryAttention(const AttentionSetting& setting,
                                                                        JsonFields& fields,
                                                                        const WeightScope& scope) {
  PatternOptions options = PlainHeads(setting, fields);
  const int64_t slots = fields.RequiredInt("slots", 0, kMostSlots);
  const int64_t window = fields.Int("window", 0, 0, kMostSpan);
  if (setting.cross) fields.Fail("persistent vectors join the sequence's own: this is no cross-attention");
  RETURN_IF_ERROR(fields.Finish());
  const Band all{.right = setting.causal ? 0 : kUnlimited};
  options.patterns = {std::make_shared<BandPattern>(window > 0 ? WindowBand(window, setting.causal) : all)};
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  ASSIGN_OR_RETURN(std::vector<float> keys, scope.Floats("pk", {options.heads, slots, options.head_dim}));
  ASSIGN_OR_RETURN(std::vector<float> values, scope.Floats("pv", {options.heads, slots, options.head_dim}));
  if (slots > 0) options.constant = Pack(keys, values, slots, options, ActivationType(setting.precision));
  return std::make_unique<PatternAttention>(setting, std::move(options), std::move(products));
}

}  // namespace heed
