// PNG and JPEG files to pixels. Files are hostile until proven otherwise: the size is checked before anything
// of it is allocated, a file of which pixels are damaged or missing is refused, and no more than so many
// scans of a JPEG are read. What only stands in the way of a JPEG's pixels, bytes that belong to nothing, is
// passed over.
#ifndef HEED_ENGINE_IMAGES_DECODE_H_
#define HEED_ENGINE_IMAGES_DECODE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace heed {

inline constexpr int64_t kMostImageSide = 1 << 15;    // in pixels
inline constexpr int64_t kMostImagePixels = 1 << 24;  // of both sides together

// INVALID_ARGUMENT, with the value and the limit, for other than 1 to so many.
absl::Status CheckImageSize(int64_t height, int64_t width);

// 8 bits a channel, pixel after pixel, line after line.
struct ByteImage {
  int64_t height = 0, width = 0, channels = 3;
  std::vector<uint8_t> values;  // [height, width, channels]
};

// In RGB, grey ones too; transparency is left out, and how a camera was held is not looked at.
// INVALID_ARGUMENT, with the value and the limit, for what is neither PNG nor JPEG, damaged, cut short or too
// large, and for a JPEG in CMYK.
absl::StatusOr<ByteImage> DecodeImage(std::string_view file);

// One channel of an image's three: 0.299 red + 0.587 green + 0.114 blue.
ByteImage ToGrey(const ByteImage& rgb);

}  // namespace heed

#endif  // HEED_ENGINE_IMAGES_DECODE_H_
