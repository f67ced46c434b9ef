// Certificates and their private keys as PEM text: whether TLS can be made with them, said before it is
// tried.
#ifndef HEED_ENGINE_BASE_CERTIFICATES_H_
#define HEED_ENGINE_BASE_CERTIFICATES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace heed {

// INVALID_ARGUMENT unless the text is certificates, one or more.
absl::Status CheckCertificates(std::string_view certificates);

// INVALID_ARGUMENT unless the text is a private key that is not encrypted, and that of the first certificate.
// Nothing of a key is ever in a message.
absl::Status CheckKey(std::string_view key, std::string_view certificates);

// FAILED_PRECONDITION if the first certificate has expired, or is not valid yet: who meets it refuses it.
absl::Status CheckDates(std::string_view certificates);

// When the first of the certificates expires that does, in seconds since 1970. INVALID_ARGUMENT unless they
// are some, with a last day each.
absl::StatusOr<int64_t> ExpiryOf(std::string_view certificates);

// The texts of files: certificates, and the key of the first of them. WrongFile() (file.h) unless they are
// that.
absl::StatusOr<std::string> ReadCertificates(std::string_view field, const std::string& path);
absl::StatusOr<std::string> ReadKey(std::string_view field, const std::string& path,
                                    std::string_view certificates);

struct CertificateAndKey {
  std::string certificate, key;
};
// A certificate of this name that nobody has signed but its own key, both new. INTERNAL if the library makes
// none.
absl::StatusOr<CertificateAndKey> NewSelfSigned(const std::string& name);

}  // namespace heed

#endif  // HEED_ENGINE_BASE_CERTIFICATES_H_
