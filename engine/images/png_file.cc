#include "engine/images/png_file.h"

#include <png.h>

#include "engine/base/status.h"

namespace heed {
namespace {

// libpng's own reader of whole images, which gives an error back instead of jumping out.
class PngFile {
 public:
  PngFile() { image_.version = PNG_IMAGE_VERSION; }
  ~PngFile() { png_image_free(&image_); }

  absl::Status Open(std::string_view file) {
    if (png_image_begin_read_from_memory(&image_, file.data(), file.size()) == 0) return Failed();
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16 bits are the 8 bits' values, only finer
    return CheckImageSize(image_.height, image_.width);
  }

  absl::StatusOr<ByteImage> Read() {
    const bool alpha = (image_.format & PNG_FORMAT_FLAG_ALPHA) != 0;
    image_.format = alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
    ByteImage image{.height = image_.height, .width = image_.width, .channels = alpha ? 4 : 3};
    image.values.resize(PNG_IMAGE_SIZE(image_));
    if (png_image_finish_read(&image_, nullptr, image.values.data(), 0, nullptr) == 0) return Failed();
    return image;
  }

 private:
  absl::Status Failed() const { return Invalid("the PNG file cannot be read: ", image_.message); }

  png_image image_{};
};

// The first three of its four channels, in place.
void DropAlpha(ByteImage& image) {
  const int64_t pixels = image.height * image.width;
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t c = 0; c < 3; ++c) image.values[3 * i + c] = image.values[4 * i + c];
  }
  image.values.resize(3 * pixels);
  image.channels = 3;
}

}  // namespace

absl::StatusOr<ByteImage> DecodePng(std::string_view file) {
  PngFile png;
  RETURN_IF_ERROR(png.Open(file));
  ASSIGN_OR_RETURN(ByteImage image, png.Read());
  if (image.channels == 4) DropAlpha(image);
  return image;
}

absl::StatusOr<std::string> EncodePng(const ByteImage& image) {
  constexpr uint32_t kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
  RETURN_IF_ERROR(CheckImageSize(image.height, image.width));
  if (image.channels < 1 || image.channels > 4)
    return Invalid("the image has ", image.channels, " channels, a PNG file has 1 to 4");
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<uint32_t>(image.width);
  png.height = static_cast<uint32_t>(image.height);
  png.format = kFormats[image.channels - 1];
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(png), '\0');
  png_alloc_size_t size = file.size();
  if (png_image_write_to_memory(&png, file.data(), &size, 0, image.values.data(), 0, nullptr) == 0)
    return Invalid("the PNG file cannot be written: ", png.message);
  file.resize(size);
  return file;
}

}  // namespace heed
