// Decoders with the layers of OPT, as fairseq named them.
#ifndef HEED_ENGINE_FAMILIES_OPT_H_
#define HEED_ENGINE_FAMILIES_OPT_H_

#include "engine/families/decoder.h"

namespace heed {

// I.{self_attn_layer_norm, self_attn.{q_proj, k_proj, v_proj, out_proj}, final_layer_norm, fc1, fc2}.
void AddOptLayers(Decoder& decoder);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_OPT_H_
