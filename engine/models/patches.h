// An image's pixels as the rows that a model reads.
#ifndef HEED_ENGINE_MODELS_PATCHES_H_
#define HEED_ENGINE_MODELS_PATCHES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace heed {

// pixels [channels, height, width], whose sides are multiples of `patch`, as patches in raster order, each
// [channels, patch, patch].
std::vector<float> Patches(std::span<const float> pixels, int64_t channels, int64_t height, int64_t width,
                           int64_t patch);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_PATCHES_H_
