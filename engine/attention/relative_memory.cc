// "relative_memory": Transformer-XL (Dai et al. 2019). Segments of a text remember the ones before. Token i
// sees the `memory` newest, itself included, with the relative positions of relative_positions.h:
//   score(i, j) = ((q_i + u) . k_j + (q_i + v) . (Wr R_t)) / sqrt(head_dim),  t = min(i - j, clamp_length)
//   R_t = [sin(t f_0), ..., cos(t f_0), ...],  f_c = 10000^(-2c / width)
// Options: memory (with 0 a token sees nothing, and gets zeros); clamp_length (none, or 0); same_length
// (true, the only form: with it a token's result does not
//   depend on where segments end).
// Tensors: q, k, v, r; pos_bias_u, pos_bias_v [heads, head_dim].
//
// The paper keeps the layer's inputs of the last segments; their keys and values give the same numbers for
// less work.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/attention/relative_positions.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int64_t kMostMemory = 1 << 16;

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> NewRelativeMemoryAttention(const AttentionSetting& setting,
                                                                      JsonFields& fields,
                                                                      const WeightScope& scope) {
  PatternOptions options = PlainHeads(setting, fields);
  const int64_t memory = fields.RequiredInt("memory", 0, kMostMemory);
  const RelativeOptions relative =
      ReadRelativeOptions(setting, options, Cat("memory: ", memory), std::max<int64_t>(1, memory), fields);
  if (!fields.Bool("same_length", true)) {
    fields.Fail("same_length: false makes results depend on where segments end, which a service cannot know");
  }
  RETURN_IF_ERROR(fields.Finish());
  options.patterns = {std::make_shared<BandPattern>(Band{.left = memory - 1, .right = 0})};
  ASSIGN_OR_RETURN(std::vector<Product> products, LoadQueriesKeysValues(setting, options, scope));
  ASSIGN_OR_RETURN(RelativePositions positions, RelativePositions::Load(setting, options, relative, scope));
  return std::make_unique<RelativeAttention>(setting, options, std::move(products), std::move(positions));
}

}  // namespace heed
