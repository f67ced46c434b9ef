#include "engine/images/preprocessing.h"

#include <tuple>
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
constexpr const char* kWithoutEffect[] = {"image_processor_type", "feature_extractor_type", "processor_class",
                                          "_valid_processor_keys", "do_convert_rgb"};

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

// To which height and width.
std::pair<int64_t, int64_t> ReadSize(JsonFields& fields) {
  if (!fields.Raw("size").is_object()) {
    const int64_t side = fields.RequiredInt("size", 1, kMostSide);
    return {side, side};
  }
  JsonFields size(fields.Raw("size"), fields.Name("size"));
  const std::pair<int64_t, int64_t> sides = {size.RequiredInt("height", 1, kMostSide),
                                             size.RequiredInt("width", 1, kMostSide)};
  fields.Fail(size.Finish());
  return sides;
}

}  // namespace

absl::StatusOr<ImagePreprocessing> ImagePreprocessing::Parse(const Json& json, int64_t channels) {
  ImagePreprocessing made;
  made.channels_ = channels;
  JsonFields fields(json, kFile);
  if (channels != 1 && channels != 3)
    fields.Fail(
        Cat("the model reads images of ", channels, " channels; files are read for those of 1 and 3"));
  if (fields.Bool("do_resize", true)) std::tie(made.height_, made.width_) = ReadSize(fields);
  const int64_t resample = fields.Int("resample", 2, 2, 3);
  made.resample_ = resample == 2 ? Resample::kBilinear : Resample::kBicubic;
  const double factor = fields.Number("rescale_factor", 1.0 / 255, 1 / kMost, kMost);
  if (fields.Bool("do_rescale", true)) made.factor_ = factor;
  made.mean_.assign(channels, 0);
  made.deviation_.assign(channels, 1);
  if (fields.Bool("do_normalize", true)) {
    made.mean_ = ReadChannels(fields, "image_mean", channels, -kMost);
    made.deviation_ = ReadChannels(fields, "image_std", channels, 1 / kMost);
  }
  for (const char* key : {"size", "image_mean", "image_std"}) fields.Ignore(key);
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
  return resizes() ? Resized(image, height_, width_, resample_) : std::move(image);
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
