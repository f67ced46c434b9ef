// What a model's preprocessor_config.json says of images, with the keys that Hugging Face uses:
//   do_resize (true)      to `size`: {"height", "width"}, or a number for both; 1 .. 2048
//   resample (2)          2 bilinear, 3 bicubic (resize.h)
//   do_rescale (true)     times rescale_factor (1 / 255)
//   do_normalize (true)   then (value - image_mean) / image_std, each a number of each channel or one for all
// What only names things has no effect; any other key is refused. A model of one channel reads images in
// grey, one of three in red, green and blue.
#ifndef HEED_ENGINE_IMAGES_PREPROCESSING_H_
#define HEED_ENGINE_IMAGES_PREPROCESSING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/images/resize.h"

namespace heed {

// An image as a model reads it.
struct FloatImage {
  int64_t height = 0, width = 0;
  std::vector<float> values;  // [channels, height, width]
};

// Const and thread-safe.
class ImagePreprocessing {
 public:
  // For a model of so many channels.
  static absl::StatusOr<ImagePreprocessing> Parse(const Json& json, int64_t channels);
  // From the folder's file; nullptr if it has none.
  static absl::StatusOr<std::unique_ptr<const ImagePreprocessing>> Load(const std::string& folder,
                                                                        int64_t channels);

  // A PNG or JPEG file as 8 bits of the model's channels, resized. INVALID_ARGUMENT as DecodeImage says.
  absl::StatusOr<ByteImage> Decode(std::string_view file) const;
  // What that gave, rescaled and normalised.
  FloatImage Normalized(const ByteImage& image) const;

  bool resizes() const { return height_ > 0; }
  int64_t height() const { return height_; }  // to which it resizes
  int64_t width() const { return width_; }

 private:
  int64_t channels_ = 0;
  int64_t height_ = 0, width_ = 0;  // 0: as the image is
  Resample resample_ = Resample::kBilinear;
  double factor_ = 1;
  std::vector<float> mean_, deviation_;  // of each channel
};

}  // namespace heed

#endif  // HEED_ENGINE_IMAGES_PREPROCESSING_H_
