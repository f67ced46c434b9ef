// What the members of IBM's Granite share.
#ifndef HEED_ENGINE_FAMILIES_GRANITE_H_
#define HEED_ENGINE_FAMILIES_GRANITE_H_

#include <string>

#include "engine/families/llama.h"

namespace heed {

// Llama's layers with Granite's multipliers.
Decoder ReadGranite(Checkpoint& checkpoint, const LlamaDefaults& defaults);

// How experts are called in block_sparse_moe, all of a kind in one tensor.
struct GraniteExperts {
  std::string router = "router.layer", input = "input_linear.weight", output = "output_linear.weight";
};
void SetGraniteExperts(Checkpoint& checkpoint, const GraniteExperts& names, Decoder& decoder);

// shared_mlp: one expert that answers every row, beside those that are chosen; of shared_intermediate_size,
// or of `fallback` where that is not given; none where it is 0.
void SetGraniteSharedExpert(Checkpoint& checkpoint, int64_t fallback, Decoder& decoder);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_GRANITE_H_
