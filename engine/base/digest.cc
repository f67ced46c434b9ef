#include "engine/base/digest.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/base/status.h"
#include "openssl/crypto.h"
#include "openssl/evp.h"

namespace heed {
namespace {

constexpr int64_t kPiece = 256 << 10;  // stays in the cache

std::string Hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += kDigits[byte / 16];
    hex += kDigits[byte % 16];
  }
  return hex;
}

// A digest that is fed piece by piece.
class Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    ok_ = context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1;
  }
  void Add(std::string_view bytes) {
    ok_ = ok_ && EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1;
  }
  absl::StatusOr<std::string> Finish() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    if (!ok_ || EVP_DigestFinal_ex(context_.get(), digest, &size) != 1)
      return absl::InternalError("libcrypto has computed no SHA-256");
    return Hex({reinterpret_cast<const char*>(digest), size});
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
  bool ok_ = false;
};

}  // namespace

absl::StatusOr<std::string> Sha256(std::string_view bytes) {
  Hash hash;
  hash.Add(bytes);
  return hash.Finish();
}

bool SameSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::StatusOr<FileDigest> DigestOf(const InputFile& file, std::stop_token stop) {
  Hash hash;
  std::string piece(std::min(kPiece, file.size()), '\0');
  for (int64_t begin = 0; begin < file.size(); begin += std::ssize(piece)) {
    if (stop.stop_requested()) return absl::CancelledError("nobody needs the digest any more");
    piece.resize(std::min(kPiece, file.size() - begin));
    RETURN_IF_ERROR(file.ReadAt(begin, piece.data(), std::ssize(piece)));
    hash.Add(piece);
  }
  ASSIGN_OR_RETURN(std::string sha256, hash.Finish());
  return FileDigest{.name = file.name(), .bytes = file.size(), .sha256 = std::move(sha256)};
}

}  // namespace heed
