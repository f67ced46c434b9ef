#include "engine/base/digest.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/status.h"
#include "openssl/evp.h"

namespace heed {
namespace {

constexpr size_t kPiece = 16 << 20;

std::string Hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += kDigits[byte / 16];
    hex += kDigits[byte % 16];
  }
  return hex;
}

absl::StatusOr<std::string> HashOf(std::string_view bytes, const std::stop_token& stop) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  bool ok = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (; ok && !bytes.empty(); bytes.remove_prefix(std::min(kPiece, bytes.size()))) {
    if (stop.stop_requested()) return absl::CancelledError("nobody needs the digest any more");
    ok = EVP_DigestUpdate(context.get(), bytes.data(), std::min(kPiece, bytes.size())) == 1;
  }
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  ok = ok && EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), &size) == 1;
  if (!ok) return absl::InternalError("libcrypto has computed no SHA-256");
  return Hex(std::string_view(digest).substr(0, size));
}

}  // namespace

absl::StatusOr<std::string> Sha256(std::string_view bytes) { return HashOf(bytes, {}); }

absl::StatusOr<FileDigest> DigestOf(const std::string& folder, const std::string& name,
                                    std::stop_token stop) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(folder, name));
  ASSIGN_OR_RETURN(const MappedFile mapped, file.Map());
  ASSIGN_OR_RETURN(std::string sha256, HashOf(mapped.bytes(), stop));
  return FileDigest{.name = name, .bytes = file.size(), .sha256 = std::move(sha256)};
}

}  // namespace heed
