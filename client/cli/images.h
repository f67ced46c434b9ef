// Image files, as they are.
#ifndef HEED_CLIENT_CLI_IMAGES_H_
#define HEED_CLIENT_CLI_IMAGES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace heed::cli {

struct ImageFile {
  std::string bytes;
  std::string where;  // its name
};

// Read as they are needed.
class ImageFiles {
 public:
  explicit ImageFiles(std::vector<std::string> names) : names_(std::move(names)) {}

  // The next files, at most `most`, and of several no more than a message to the server takes; none at the
  // end. An error names the file that cannot be read, is empty or has more than 64 MiB.
  absl::StatusOr<std::vector<ImageFile>> Next(size_t most);

 private:
  std::vector<std::string> names_;
  size_t next_ = 0;
};

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_IMAGES_H_
