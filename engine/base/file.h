// Files that somebody else wrote. Only a regular file that lies in its folder is opened: no device, no pipe,
// no link that leads out, but for those of a snapshot in Hugging Face's cache to its blobs. Messages name the
// file, never the path to it, so that they may be shown to a client.
#ifndef HEED_ENGINE_BASE_FILE_H_
#define HEED_ENGINE_BASE_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace heed {

// A file open for reading, its size as it was when opened.
class InputFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT for what is no regular file of the folder. Links inside
  // are followed.
  static absl::StatusOr<InputFile> Open(const std::string& folder, const std::string& name);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  const std::string& name() const { return name_; }
  int64_t size() const { return size_; }
  // The whole file; an error if its size is no longer size().
  absl::StatusOr<std::string> Read() const;
  // `size` bytes from `begin` on; an error if the file has become shorter. Thread-safe. (Nothing is mapped: a
  // mapped file that becomes shorter ends the process.)
  absl::Status ReadAt(int64_t begin, void* to, int64_t size) const;

 private:
  InputFile(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
  absl::Status Unchanged() const;
  int descriptor_;
  std::string name_;
  int64_t size_ = 0;
};

// The text of a file; INVALID_ARGUMENT beyond max_bytes.
absl::StatusOr<std::string> ReadFile(const std::string& folder, const std::string& name, int64_t max_bytes);

// The same of a file that whoever runs this program has named: links are followed wherever they lead.
absl::StatusOr<std::string> ReadNamedFile(const std::string& path, int64_t max_bytes);

// What is wrong with a file that a field of a config, or a flag, has named: INVALID_ARGUMENT "FIELD is
// 'PATH': WHY".
absl::Status WrongFile(std::string_view field, const std::string& path, const absl::Status& why);
// The text of such a file; WrongFile() where it cannot be read.
absl::StatusOr<std::string> ReadFileOf(std::string_view field, const std::string& path, int64_t max_bytes);

// Tells a file from the one that stood there before. Those of two files that cannot be looked at are the
// same.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t size = -1, seconds = 0, nanoseconds = 0;  // the last two: when it was written

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
FileStamp StampOf(const std::string& path);

}  // namespace heed

#endif  // HEED_ENGINE_BASE_FILE_H_
