#include "engine/base/file.h"

#include <fcntl.h>
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

bool IsBelow(const fs::path& path, const fs::path& root) {
  const fs::path inside = path.lexically_relative(root);
  return !inside.empty() && *inside.begin() != "..";
}

// The hub's cache of a repository keeps files in blobs/, and links to them in snapshots/REVISION/. The blobs
// of a folder that is such a snapshot; empty if it is none.
fs::path BlobsOf(const fs::path& folder) {
  if (folder.parent_path().filename() != "snapshots") return {};
  return folder.parent_path().parent_path() / "blobs";
}

// Where the file really lies, all links followed; an error if that is neither below the folder nor among its
// blobs.
absl::StatusOr<fs::path> Resolve(const std::string& folder, const std::string& name) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error) return SystemError(name, error.value());
  const fs::path path = fs::canonical(root / name, error);
  if (error) return SystemError(name, error.value());
  if (IsBelow(path, root)) return path;
  const fs::path blobs = BlobsOf(root);
  if (blobs.empty() || !IsBelow(path, blobs)) return Invalid(name, ": leads out of its folder");
  return path;
}

absl::StatusOr<int64_t> RegularSize(int descriptor, std::string_view name) {
  struct stat info;
  if (fstat(descriptor, &info) != 0) return SystemError(name, errno);
  if (!S_ISREG(info.st_mode)) return Invalid(name, ": is not a regular file");
  return info.st_size;
}

}  // namespace

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

absl::Status InputFile::ReadAt(int64_t begin, void* to, int64_t size) const {
  for (int64_t read = 0; read < size;) {
    const ssize_t got = pread(descriptor_, static_cast<char*>(to) + read, size - read, begin + read);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(name_, errno);
    if (got == 0) {
      RETURN_IF_ERROR(Unchanged());
      return Invalid(name_, ": ends at byte ", begin + read, ", not at ", begin + size);
    }
    read += got;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> InputFile::Read() const {
  std::string text(size_, '\0');
  RETURN_IF_ERROR(ReadAt(0, text.data(), size_));
  RETURN_IF_ERROR(Unchanged());
  return text;
}

absl::StatusOr<std::string> ReadFile(const std::string& folder, const std::string& name, int64_t max_bytes) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(folder, name));
  if (file.size() > max_bytes) return Invalid(name, ": ", file.size(), " bytes are above ", max_bytes);
  return file.Read();
}

absl::StatusOr<std::string> ReadNamedFile(const std::string& path, int64_t max_bytes) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  if (error) return SystemError(path, error.value());
  return ReadFile(file.parent_path(), file.filename(), max_bytes);
}

absl::Status WrongFile(std::string_view field, const std::string& path, const absl::Status& why) {
  return Invalid(field, " is '", path, "': ", std::string(why.message()));
}

absl::StatusOr<std::string> ReadFileOf(std::string_view field, const std::string& path, int64_t max_bytes) {
  auto text = ReadNamedFile(path, max_bytes);
  return text.ok() ? std::move(text) : WrongFile(field, path, text.status());
}

FileStamp StampOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return {};
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size = info.st_size,
          .seconds = info.st_mtim.tv_sec,
          .nanoseconds = info.st_mtim.tv_nsec};
}

}  // namespace heed
