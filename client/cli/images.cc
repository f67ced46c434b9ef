#include "client/cli/images.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "engine/base/status.h"

namespace heed::cli {
namespace {

constexpr size_t kMostBytes = 64 << 20;       // of a file
constexpr size_t kBytesARequest = 2'000'000;  // of several: half of what a server takes by default

absl::StatusOr<ImageFile> Read(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  if (!file) return absl::NotFoundError(Cat(name, ": ", std::strerror(errno)));
  ImageFile image{.where = name};
  for (char part[1 << 16]; file.read(part, sizeof(part)), file.gcount() > 0;) {
    image.bytes.append(part, file.gcount());
    if (image.bytes.size() > kMostBytes) return Invalid(name, ": more than ", kMostBytes, " bytes");
  }
  if (file.bad()) return absl::DataLossError(Cat(name, ": ", std::strerror(errno)));
  if (image.bytes.empty()) return Invalid(name, ": is empty");
  return image;
}

}  // namespace

absl::StatusOr<std::vector<ImageFile>> ImageFiles::Next(size_t most) {
  std::vector<ImageFile> images;
  for (size_t bytes = 0; images.size() < most && next_ < names_.size() && bytes < kBytesARequest; ++next_) {
    ASSIGN_OR_RETURN(ImageFile image, Read(names_[next_]));
    bytes += image.bytes.size();
    if (!images.empty() && bytes > kBytesARequest) break;
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace heed::cli
