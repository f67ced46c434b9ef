#include "engine/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "engine/base/status.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

absl::Status SystemError(std::string_view name, int error) { return absl::ErrnoToStatus(error, Cat(name)); }

// Where the file really lies, all links followed; an error if that is not below the folder.
absl::StatusOr<fs::path> Resolve(const std::string& folder, const std::string& name) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error) return SystemError(name, error.value());
  const fs::path path = fs::canonical(root / name, error);
  if (error) return SystemError(name, error.value());
  const fs::path inside = path.lexically_relative(root);
  if (inside.empty() || *inside.begin() == "..") return Invalid(name, ": leads out of its folder");
  return path;
}

absl::StatusOr<int64_t> RegularSize(int descriptor, std::string_view name) {
  struct stat info;
  if (fstat(descriptor, &info) != 0) return SystemError(name, errno);
  if (!S_ISREG(info.st_mode)) return Invalid(name, ": is not a regular file");
  return info.st_size;
}

}  // namespace

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(const_cast<void*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& folder, const std::string& name) {
  ASSIGN_OR_RETURN(const fs::path path, Resolve(folder, name));
  // Not blocking: opening a pipe would wait for its writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return SystemError(name, errno);
  InputFile file(descriptor, name);
  ASSIGN_OR_RETURN(file.size_, RegularSize(descriptor, name));
  return file;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)), size_(other.size_) {}

absl::Status InputFile::Unchanged() const {
  ASSIGN_OR_RETURN(const int64_t now, RegularSize(descriptor_, name_));
  if (now == size_) return absl::OkStatus();
  return Invalid(name_, ": changed while it was read, from ", size_, " to ", now, " bytes");
}

absl::StatusOr<MappedFile> InputFile::Map() const {
  if (size_ == 0) return MappedFile(nullptr, 0);
  void* data = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (data == MAP_FAILED) return SystemError(name_, errno);
  MappedFile mapped(data, size_);
  RETURN_IF_ERROR(Unchanged());
  return mapped;
}

absl::StatusOr<std::string> InputFile::Read() const {
  std::string text(size_, '\0');
  for (int64_t at = 0; at < size_;) {
    const ssize_t got = pread(descriptor_, text.data() + at, size_ - at, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(name_, errno);
    if (got == 0) break;  // it became shorter
    at += got;
  }
  RETURN_IF_ERROR(Unchanged());
  return text;
}

absl::StatusOr<std::string> ReadFile(const std::string& folder, const std::string& name, int64_t max_bytes) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(folder, name));
  if (file.size() > max_bytes) return Invalid(name, ": ", file.size(), " bytes are above ", max_bytes);
  return file.Read();
}

}  // namespace heed
