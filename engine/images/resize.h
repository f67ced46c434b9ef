// Images of another size. Resized() is as Pillow resizes: each pixel is a sum of those beneath a filter that
// is as wide as the image shrinks, so that nothing is left out; first along lines, then along columns, each
// rounded to 8 bits. The sums are in whole numbers, so the result is the same on every machine.
#ifndef HEED_ENGINE_IMAGES_RESIZE_H_
#define HEED_ENGINE_IMAGES_RESIZE_H_

#include <cstdint>

#include "engine/images/decode.h"

namespace heed {

enum class Resample { kBilinear, kBicubic };

// height and width: at least 1.
ByteImage Resized(const ByteImage& image, int64_t height, int64_t width, Resample resample);

// The middle, of an odd rest the larger half below and to the right of it. Where the image is smaller, zeros
// stand around it, of an odd number more above and to the left.
ByteImage Cropped(const ByteImage& image, int64_t height, int64_t width);

}  // namespace heed

#endif  // HEED_ENGINE_IMAGES_RESIZE_H_
