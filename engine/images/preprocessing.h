// What a model's preprocessor_config.json says of images, with the keys that Hugging Face uses, in the order
// in which it is done:
//   do_resize (true)        to `size`: {"height", "width"}; {"shortest_edge"}: the shorter side is made so
//                           long, the other in proportion, rounded down; or a number: both sides. 1 .. 2048
//   resample (2)            2 bilinear, 3 bicubic (resize.h)
//   do_center_crop (false)  to `crop_size`: {"height", "width"} or a number, 1 .. 2048; zeros stand around
//                           what is smaller
//   do_rescale (true)       times rescale_factor (1 / 255)
//   do_normalize (true)     then (value - image_mean) / image_std, each a number of each channel or one for
//                           all
// Where image_processor_type, or feature_extractor_type, begins with "CLIP" or "ConvNext", a `size` that is a
// number is a shortest_edge, and resample is 3 by default. CLIP's do_center_crop is true by default.
// ConvNext's size has a shortest_edge: from 384 on both sides are made so long; below, the shorter side is
// made shortest_edge / crop_pct (224 / 256) long, rounded down, and the middle of shortest_edge by
// shortest_edge is taken.
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

// In pixels; none of both: as the image is.
struct PixelSize {
  int64_t height = 0, width = 0;
};

// What becomes of an image's size: at most one of the first two, then the last.
struct ImageResizing {
  PixelSize to;
  int64_t shortest_edge = 0;  // 0: none
  PixelSize crop;
};

// Const and thread-safe.
class ImagePreprocessing {
 public:
  // For a model of so many channels.
  static absl::StatusOr<ImagePreprocessing> Parse(const Json& json, int64_t channels);
  // From the folder's file; nullptr if it has none.
  static absl::StatusOr<std::unique_ptr<const ImagePreprocessing>> Load(const std::string& folder,
                                                                        int64_t channels);

  // A PNG or JPEG file as 8 bits of the model's channels, of its size. INVALID_ARGUMENT as DecodeImage says,
  // and for a size that its longer side, made in proportion, is too long for.
  absl::StatusOr<ByteImage> Decode(std::string_view file) const;
  // What that gave, rescaled and normalised.
  FloatImage Normalized(const ByteImage& image) const;

  const ImageResizing& resizing() const { return resizing_; }
  // Of each image that Decode() gives; none of both: it depends on the file.
  PixelSize size() const { return resizing_.crop.height > 0 ? resizing_.crop : resizing_.to; }

 private:
  absl::StatusOr<PixelSize> ResizedFrom(const ByteImage& image) const;

  int64_t channels_ = 0;
  ImageResizing resizing_;
  Resample resample_ = Resample::kBilinear;
  double factor_ = 1;
  std::vector<float> mean_, deviation_;  // of each channel
};

}  // namespace heed

#endif  // HEED_ENGINE_IMAGES_PREPROCESSING_H_
