// PNG files, by libpng. Behind decode.h.
#ifndef HEED_ENGINE_IMAGES_PNG_FILE_H_
#define HEED_ENGINE_IMAGES_PNG_FILE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/images/decode.h"

namespace heed {

absl::Status CheckImageSize(int64_t height, int64_t width);
absl::StatusOr<ByteImage> DecodePng(std::string_view file);

}  // namespace heed

#endif  // HEED_ENGINE_IMAGES_PNG_FILE_H_
