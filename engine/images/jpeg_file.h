// JPEG files, by libjpeg-turbo. Behind decode.h.
#ifndef HEED_ENGINE_IMAGES_JPEG_FILE_H_
#define HEED_ENGINE_IMAGES_JPEG_FILE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/images/decode.h"

namespace heed {

absl::StatusOr<ByteImage> DecodeJpeg(std::string_view file);

}  // namespace heed

#endif  // HEED_ENGINE_IMAGES_JPEG_FILE_H_
