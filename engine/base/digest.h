// What bytes are, told short: their SHA-256, as `sha256sum` prints it.
#ifndef HEED_ENGINE_BASE_DIGEST_H_
#define HEED_ENGINE_BASE_DIGEST_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/file.h"

namespace heed {

struct FileDigest {
  std::string name;  // in its folder
  int64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
};

// As hexadecimal digits. INTERNAL if the library has none.
absl::StatusOr<std::string> Sha256(std::string_view bytes);

// Whether two are the same. What it takes tells nothing of where they differ.
bool SameSecret(std::string_view a, std::string_view b);

// Reads all of the file, a second takes one to two gigabytes; CANCELLED soon after the token is asked to
// stop.
absl::StatusOr<FileDigest> DigestOf(const InputFile& file, std::stop_token stop = {});

}  // namespace heed

#endif  // HEED_ENGINE_BASE_DIGEST_H_
