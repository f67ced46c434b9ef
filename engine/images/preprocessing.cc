#include "engine/images/preprocessing.h"

#include <algorithm>
#include <utility>

#include "engine/base/file.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr const char* kFile = "preprocessor_config.json";
constexpr int64_t kMostFileBytes = 1 << 20;
constexpr int64_t kMostSide = 2048;
constexpr double kMost = 1e6;

// Of classes in Python that read the file, and of what is done to every image in any case.
constexpr const char* kWithoutEffect[] = {"processor_class", "_valid_processor_keys", "do_convert_rgb"};

// By the class in Python that reads the file some keys mean other things.
enum class Dialect { kPlain, kClip, kConvNext };

Dialect DialectOf(JsonFields& fields) {
  Dialect dialect = Dialect::kPlain;
  for (const char* key : {"feature_extractor_type", "image_processor_type"}) {
    const Json& type = fields.Raw(key);
    const std::string name = type.is_string() ? type.get<std::string>() : "";
    if (name.starts_with("CLIP")) dialect = Dialect::kClip;
    if (name.starts_with("ConvNext")) dialect = Dialect::kConvNext;
  }
  return dialect;
}

// A number of each channel, or one for all of them.
std::vector<float> ReadChannels(JsonFields& fields, const std::string& key, int64_t channels, double least) {
  const Json& value = fields.Raw(key);
  const Json list = value.is_number() ? Json::array({value}) : value;
  std::vector<float> numbers;
  if (list.is_array() && (std::ssize(list) == channels || std::ssize(list) == 1)) {
    for (const Json& number : list) {
      if (number.is_number() && number >= least && number <= kMost) numbers.push_back(number.get<float>());
    }
  }
  if (numbers.empty() || numbers.size() != list.size()) {
    fields.Fail(Cat(key, ": ", Shown(value), "; do_normalize needs 1 or ", channels, " numbers of ", least,
                    " to ", kMost));
  }
  numbers.resize(channels, numbers.empty() ? 1 : numbers[0]);
  return numbers;
}

// A height and a width, or a number for both.
PixelSize ReadSides(JsonFields& fields, const std::string& key) {
  if (!fields.Raw(key).is_object()) {
    const int64_t side = fields.RequiredInt(key, 1, kMostSide);
    return {side, side};
  }
  JsonFields sides(fields.Raw(key), fields.Name(key));
  const PixelSize size{.height = sides.RequiredInt("height", 1, kMostSide),
                       .width = sides.RequiredInt("width", 1, kMostSide)};
  fields.Fail(sides.Finish());
  return size;
}

// 0: the size has none.
int64_t ReadShortestEdge(JsonFields& fields, Dialect dialect) {
  const Json& size = fields.Raw("size");
  if (!size.is_object()) return dialect == Dialect::kPlain ? 0 : fields.RequiredInt("size", 1, kMostSide);
  if (!size.contains("shortest_edge")) return 0;
  JsonFields edges(size, fields.Name("size"));
  const int64_t shortest = edges.RequiredInt("shortest_edge", 1, kMostSide);
  fields.Fail(edges.Finish());
  return shortest;
}

ImageResizing ReadConvNextSize(JsonFields& fields, int64_t shortest_edge) {
  constexpr int64_t kWhole = 384;  // an image of this size is not cropped
  const double part = fields.Number("crop_pct", 224.0 / 256, 0.05, 1);
  if (shortest_edge == 0) fields.Fail("size: a ConvNext's is {\"shortest_edge\"} or a number");
  const PixelSize square{shortest_edge, shortest_edge};
  if (shortest_edge >= kWhole) return {.to = square, .crop = {}};
  return {.to = {},
          .shortest_edge = static_cast<int64_t>(static_cast<double>(shortest_edge) / part),
          .crop = square};
}

ImageResizing ReadResizing(JsonFields& fields, Dialect dialect) {
  ImageResizing resizing;
  if (fields.Bool("do_resize", true)) {
    const int64_t shortest = resizing.shortest_edge = ReadShortestEdge(fields, dialect);
    if (dialect == Dialect::kConvNext) return ReadConvNextSize(fields, shortest);
    if (shortest == 0) resizing.to = ReadSides(fields, "size");
  }
  if (dialect != Dialect::kConvNext && fields.Bool("do_center_crop", dialect == Dialect::kClip))
    resizing.crop = ReadSides(fields, "crop_size");
  return resizing;
}

}  // namespace

absl::StatusOr<ImagePreprocessing> ImagePreprocessing::Parse(const Json& json, int64_t channels) {
  ImagePreprocessing made;
  made.channels_ = channels;
  JsonFields fields(json, kFile);
  if (channels != 1 && channels != 3)
    fields.Fail(
        Cat("the model reads images of ", channels, " channels; files are read for those of 1 and 3"));
  const Dialect dialect = DialectOf(fields);
  made.resizing_ = ReadResizing(fields, dialect);
  const int64_t resample = fields.Int("resample", dialect == Dialect::kPlain ? 2 : 3, 2, 3);
  made.resample_ = resample == 2 ? Resample::kBilinear : Resample::kBicubic;
  const double factor = fields.Number("rescale_factor", 1.0 / 255, 1 / kMost, kMost);
  if (fields.Bool("do_rescale", true)) made.factor_ = factor;
  made.mean_.assign(channels, 0);
  made.deviation_.assign(channels, 1);
  if (fields.Bool("do_normalize", true)) {
    made.mean_ = ReadChannels(fields, "image_mean", channels, -kMost);
    made.deviation_ = ReadChannels(fields, "image_std", channels, 1 / kMost);
  }
  for (const char* key : {"size", "crop_size", "image_mean", "image_std"}) fields.Ignore(key);
  if (dialect == Dialect::kConvNext) fields.Ignore("crop_pct");
  for (const char* key : kWithoutEffect) fields.Ignore(key);
  RETURN_IF_ERROR(fields.Finish());
  return made;
}

absl::StatusOr<std::unique_ptr<const ImagePreprocessing>> ImagePreprocessing::Load(const std::string& folder,
                                                                                   int64_t channels) {
  const absl::StatusOr<std::string> text = ReadFile(folder, kFile, kMostFileBytes);
  if (absl::IsNotFound(text.status())) return nullptr;
  RETURN_IF_ERROR(text.status());
  ASSIGN_OR_RETURN(const Json json, ParseJson(*text, kFile));
  ASSIGN_OR_RETURN(ImagePreprocessing made, Parse(json, channels));
  return std::make_unique<const ImagePreprocessing>(std::move(made));
}

absl::StatusOr<ByteImage> ImagePreprocessing::Decode(std::string_view file) const {
  ASSIGN_OR_RETURN(ByteImage image, DecodeImage(file));
  if (channels_ == 1) image = ToGrey(image);
  ASSIGN_OR_RETURN(const PixelSize size, ResizedFrom(image));
  if (size.height != image.height || size.width != image.width)
    image = Resized(image, size.height, size.width, resample_);
  const PixelSize& crop = resizing_.crop;
  return crop.height > 0 ? Cropped(image, crop.height, crop.width) : std::move(image);
}

absl::StatusOr<PixelSize> ImagePreprocessing::ResizedFrom(const ByteImage& image) const {
  const int64_t height = image.height, width = image.width, shortest = resizing_.shortest_edge;
  if (resizing_.to.height > 0) return resizing_.to;
  if (shortest == 0) return PixelSize{height, width};
  const int64_t longest = shortest * std::max(height, width) / std::min(height, width);
  const PixelSize size = width <= height ? PixelSize{longest, shortest} : PixelSize{shortest, longest};
  if (CheckImageSize(size.height, size.width).ok()) return size;
  return Invalid("the image has height ", height, " and width ", width, ", and with shortest_edge ", shortest,
                 " height ", size.height, " and width ", size.width, ", possible are ", kMostImageSide,
                 " a side and ", kMostImagePixels, " pixels");
}

FloatImage ImagePreprocessing::Normalized(const ByteImage& image) const {
  FloatImage out{.height = image.height, .width = image.width};
  out.values.reserve(image.values.size());
  for (int64_t c = 0; c < channels_; ++c) {
    for (size_t i = c; i < image.values.size(); i += channels_) {
      const float value = static_cast<float>(image.values[i] * factor_);
      out.values.push_back((value - mean_[c]) / deviation_[c]);
    }
  }
  return out;
}

}  // namespace heed
