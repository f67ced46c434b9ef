// How heads are turned: what config.json says of it (rope_theta, rope_scaling, partial_rotary_factor; since
// transformers 5 rope_parameters, for all layers or by layer type), as the "rope" of a native attention.
#ifndef HEED_ENGINE_FAMILIES_ROPE_H_
#define HEED_ENGINE_FAMILIES_ROPE_H_

#include <cstdint>
#include <string_view>

#include "engine/families/family.h"

namespace heed {

// Of a family: what holds where config.json does not say it, and the keys that say it.
struct RopeDefaults {
  double theta = 10000;
  double share = 1;  // of a head's numbers, the first, that are turned
  bool interleaved = false;
  std::string_view theta_key = "rope_theta";
  std::string_view share_key = "partial_rotary_factor";
  bool ntk = false;  // "ntk" is a scaling too: theta times its factor, frequencies by a power of it less
  // "dynamic" and "longrope" are scalings too, as they are of texts within the original length, which are all
  // that the family takes (LongestTurned()): beyond it all depends on how long a text becomes.
  bool within_original = false;
  bool position_scale = false;  // the family reads llama_4_scaling_beta (ReadPositionScale())
};

// The original length, where the scaling is "dynamic" or "longrope"; else 0.
int64_t LongestTurned(Checkpoint& checkpoint);

// Of layers of one type. Null: they are not turned. The fields fail where a scaling is none of those that are
// the same at every length: "dynamic" and "longrope" depend on the length of the text.
Json ReadRope(Checkpoint& checkpoint, const RopeDefaults& defaults, int64_t head_dim,
              std::string_view layer_type = "full_attention");

// Scores that grow with the position, where rope_parameters have llama_4_scaling_beta: the native
// "position_scale". Null: none.
Json ReadPositionScale(Checkpoint& checkpoint);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_ROPE_H_
