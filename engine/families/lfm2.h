// What the families of LFM2's layers share.
#ifndef HEED_ENGINE_FAMILIES_LFM2_H_
#define HEED_ENGINE_FAMILIES_LFM2_H_

#include <cstdint>
#include <string>

#include "engine/families/decoder.h"

namespace heed {

// Sizes but head_dim, norms before sublayers, SwiGLU, and what stands around the layers; their attention is
// the family's to set (SetLayers()).
Decoder ReadLfm2Frame(Checkpoint& checkpoint, int64_t intermediate_size);

// A convolution's tensors: `to` the native attention, `of` the module, both with a dot at the end; `kernel`:
// its taps.
void AddShortConvolution(const std::string& to, const std::string& of, int64_t kernel, TensorView& tensors);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_LFM2_H_
