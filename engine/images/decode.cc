#include "engine/images/decode.h"

#include "engine/base/status.h"
#include "engine/images/jpeg_file.h"
#include "engine/images/png_file.h"

namespace heed {

absl::Status CheckImageSize(int64_t height, int64_t width) {
  if (height < 1 || width < 1 || height > kMostImageSide || width > kMostImageSide)
    return Invalid("the image has height ", height, " and width ", width, ", possible are 1 to ",
                   kMostImageSide);
  if (height * width > kMostImagePixels)
    return Invalid("the image has height ", height, " and width ", width, ", ", height * width,
                   " pixels; at most ", kMostImagePixels, " are read");
  return absl::OkStatus();
}

absl::StatusOr<ByteImage> DecodeImage(std::string_view file) {
  if (file.starts_with("\x89PNG\r\n\x1a\n")) return DecodePng(file);
  if (file.starts_with("\xff\xd8\xff")) return DecodeJpeg(file);
  return Invalid("the ", file.size(), " bytes begin neither as a PNG nor as a JPEG file");
}

// In whole numbers: 19595, 38470 and 7471 of 65536.
ByteImage ToGrey(const ByteImage& rgb) {
  ByteImage grey{.height = rgb.height, .width = rgb.width, .channels = 1};
  grey.values.reserve(rgb.height * rgb.width);
  for (size_t i = 0; i < rgb.values.size(); i += 3) {
    const uint32_t sum = 19595u * rgb.values[i] + 38470u * rgb.values[i + 1] + 7471u * rgb.values[i + 2];
    grey.values.push_back(static_cast<uint8_t>((sum + 0x8000) >> 16));
  }
  return grey;
}

}  // namespace heed
