// OpenSSL's certificates and keys, owned, and read from PEM text. Only who takes part in TLS includes this.
#ifndef HEED_ENGINE_BASE_X509_H_
#define HEED_ENGINE_BASE_X509_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "openssl/bio.h"
#include "openssl/evp.h"
#include "openssl/x509.h"

namespace heed {

template <auto Free>
struct FreedBy {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using X509Ptr = std::unique_ptr<X509, FreedBy<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreedBy<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, FreedBy<BIO_free>>;

// All that the text holds, in its order; INVALID_ARGUMENT if that is none, or one is damaged.
absl::StatusOr<std::vector<X509Ptr>> ParseCertificates(std::string_view pem);
// INVALID_ARGUMENT if there is none, or it is encrypted. Nothing of the text is in the message.
absl::StatusOr<KeyPtr> ParseKey(std::string_view pem);

std::string PemOf(const X509& certificate);
std::string PemOf(const EVP_PKEY& key);  // not encrypted

// "2026-11-23", in UTC.
std::string DayOf(const ASN1_TIME* time);

}  // namespace heed

#endif  // HEED_ENGINE_BASE_X509_H_
