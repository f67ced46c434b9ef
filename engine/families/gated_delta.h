// Layers of the gated delta rule among those of attention: what the families that have them share.
#ifndef HEED_ENGINE_FAMILIES_GATED_DELTA_H_
#define HEED_ENGINE_FAMILIES_GATED_DELTA_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/families/decoder.h"

namespace heed {

// Sizes of the heads, from the keys linear_*.
struct DeltaHeads {
  int64_t key_heads = 16, value_heads = 32, key_dim = 128, value_dim = 128;
  int64_t kernel = 4;

  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  int64_t shared() const { return value_heads / key_heads; }  // by how many heads a key is
};

// The sizes, `defaults` where config.json does not say them; the fields fail where a key serves no whole
// number of heads.
DeltaHeads ReadDeltaHeads(JsonFields& fields, const DeltaHeads& defaults);

// Which layers are "linear_attention" by layer_types, of which there are no others but "full_attention";
// without them those that `rule` says.
std::vector<bool> LinearLayers(Checkpoint& checkpoint, int64_t layers, absl::FunctionRef<bool(int64_t)> rule);

// The native attention of such a layer.
Json DeltaAttention(const DeltaHeads& heads);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_GATED_DELTA_H_
