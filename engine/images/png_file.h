// PNG files, by libpng. Reading stands behind decode.h.
#ifndef HEED_ENGINE_IMAGES_PNG_FILE_H_
#define HEED_ENGINE_IMAGES_PNG_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/images/decode.h"

namespace heed {

absl::StatusOr<ByteImage> DecodePng(std::string_view file);
// Of 1 channel grey, of 2 grey and alpha, of 3 RGB, of 4 RGBA. INVALID_ARGUMENT for any other number of
// channels, and for a size that DecodeImage() would not read.
absl::StatusOr<std::string> EncodePng(const ByteImage& image);

}  // namespace heed

#endif  // HEED_ENGINE_IMAGES_PNG_FILE_H_
