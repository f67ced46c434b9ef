#include "client/cli/drawings.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "engine/base/status.h"
#include "engine/images/png_file.h"

namespace heed::cli {
namespace {

constexpr int32_t kWhite = 255;

// "digits-2.png" of "digits.png".
std::string Numbered(const std::string& file, size_t number) {
  const size_t slash = file.rfind('/'), dot = file.rfind('.');
  const size_t name = slash == file.npos ? 0 : slash + 1;
  const size_t ending = dot == file.npos || dot <= name ? file.size() : dot;
  return Cat(file.substr(0, ending), "-", number, file.substr(ending));
}

// What a prompt has of the image, behind an id that says what is to be drawn.
std::vector<int32_t> BegunBy(const v1::Input& prompt, int32_t levels) {
  const auto& ids = prompt.tokens().ids();
  const bool named = !ids.empty() && ids[0] >= levels;
  return {ids.begin() + (named ? 1 : 0), ids.end()};
}

// Channels beside one another, as files have them.
ByteImage ImageOf(const v1::GeneratedImage& shape, const std::vector<int32_t>& levels) {
  ByteImage image{.height = shape.height(), .width = shape.width(), .channels = shape.channels()};
  const int64_t pixels = image.height * image.width, most = std::max(shape.levels() - 1, 1);
  image.values.resize(pixels * image.channels);
  const int64_t known = std::min(std::ssize(levels), std::ssize(image.values));
  for (int64_t i = 0; i < known; ++i) {
    const int64_t level = std::clamp<int64_t>(levels[i], 0, most);
    image.values[i % pixels * image.channels + i / pixels] =
        static_cast<uint8_t>((level * kWhite + most / 2) / most);
  }
  return image;
}

}  // namespace

absl::StatusOr<Drawings> Drawings::Of(const v1::GeneratedImage& image, const v1::GenerateRequest& request,
                                      int samples) {
  RETURN_IF_ERROR(CheckImageSize(image.height(), image.width()));
  if (image.channels() < 1 || image.channels() > 4)
    return Invalid("the model draws images of ", image.channels(), " channels, a PNG file has 1 to 4");
  Drawings drawings(image, samples);
  for (const v1::Input& input : request.inputs()) {
    const Drawing begun{.levels = BegunBy(input, image.levels())};
    drawings.drawings_.insert(drawings.drawings_.end(), samples, begun);
  }
  return drawings;
}

void Drawings::Add(const v1::GenerateEvent& event) {
  if (event.input() < 0 || event.sample() < 0 || event.sample() >= samples_) return;
  const size_t at = static_cast<size_t>(event.input()) * samples_ + event.sample();
  if (at >= drawings_.size()) return;
  const auto& tokens = event.piece().tokens();
  Drawing& drawing = drawings_[at];
  drawing.levels.insert(drawing.levels.end(), tokens.begin(), tokens.end());
  drawing.drawn = drawing.drawn || !tokens.empty();
}

absl::StatusOr<std::vector<std::string>> Drawings::Write(const std::string& file) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < drawings_.size(); ++i) {
    if (!drawings_[i].drawn) continue;
    names.push_back(drawings_.size() == 1 ? file : Numbered(file, i + 1));
    RETURN_IF_ERROR(WriteOne(drawings_[i], names.back()));
  }
  return names;
}

absl::Status Drawings::WriteOne(const Drawing& drawing, const std::string& file) const {
  ASSIGN_OR_RETURN(const std::string png, EncodePng(ImageOf(image_, drawing.levels)));
  std::ofstream out(file, std::ios::binary);
  if (!out.write(png.data(), std::ssize(png)).flush()) return Invalid(file, ": ", std::strerror(errno));
  return absl::OkStatus();
}

}  // namespace heed::cli
