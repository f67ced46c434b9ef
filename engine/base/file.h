// Files that somebody else wrote. Only a regular file that lies in its folder is opened: no device, no pipe,
// no link that leads out. Messages name the file, never the path to it, so that they may be shown to a
// client.
#ifndef HEED_ENGINE_BASE_FILE_H_
#define HEED_ENGINE_BASE_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace heed {

// A file in memory as it lies on the disk, read only.
class MappedFile {
 public:
  MappedFile(const void* data, int64_t size) : data_(data), size_(size) {}
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::string_view bytes() const { return {static_cast<const char*>(data_), static_cast<size_t>(size_)}; }

 private:
  const void* data_;
  int64_t size_;
};

// A file open for reading, its size as it was when opened.
class InputFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT for what is no regular file of the folder. Links inside
  // are followed.
  static absl::StatusOr<InputFile> Open(const std::string& folder, const std::string& name);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  int64_t size() const { return size_; }
  // The whole file; an error if its size is no longer size(), since reading beyond the end of a mapping is
  // fatal.
  absl::StatusOr<MappedFile> Map() const;
  absl::StatusOr<std::string> Read() const;

 private:
  InputFile(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
  absl::Status Unchanged() const;
  int descriptor_;
  std::string name_;
  int64_t size_ = 0;
};

// The text of a file; INVALID_ARGUMENT beyond max_bytes.
absl::StatusOr<std::string> ReadFile(const std::string& folder, const std::string& name, int64_t max_bytes);

}  // namespace heed

#endif  // HEED_ENGINE_BASE_FILE_H_
