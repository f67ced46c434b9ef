#include "engine/base/certificates.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>

#include "engine/base/file.h"
#include "engine/base/status.h"
#include "engine/base/x509.h"
#include "openssl/asn1.h"
#include "openssl/ec.h"
#include "openssl/err.h"

namespace heed {
namespace {

constexpr int64_t kMostBytes = 1 << 20;  // of a file; a system's authorities are a fifth of that
constexpr long kDay = 24 * 3600;
constexpr int kForeverDays = 36'500;  // of who lives as long as a process

bool Sign(const std::string& name, X509* certificate, EVP_PKEY* key) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  return X509_set_version(certificate, X509_VERSION_3) == 1 &&
         ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1 &&
         X509_gmtime_adj(X509_getm_notBefore(certificate), -kDay) != nullptr &&
         X509_time_adj_ex(X509_getm_notAfter(certificate), kForeverDays, 0, nullptr) != nullptr &&
         X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(name.data()),
                                    static_cast<int>(name.size()), -1, 0) == 1 &&
         X509_set_issuer_name(certificate, subject) == 1 && X509_set_pubkey(certificate, key) == 1 &&
         X509_sign(certificate, key, EVP_sha256()) > 0;
}

}  // namespace

absl::Status CheckCertificates(std::string_view certificates) {
  return ParseCertificates(certificates).status();
}

absl::Status CheckKey(std::string_view key, std::string_view certificates) {
  ASSIGN_OR_RETURN(const KeyPtr parsed, ParseKey(key));
  ASSIGN_OR_RETURN(const auto chain, ParseCertificates(certificates));
  const bool fits = X509_check_private_key(chain.front().get(), parsed.get()) == 1;
  ERR_clear_error();
  return fits ? absl::OkStatus() : Invalid("it is not the key of the certificate");
}

absl::Status CheckDates(std::string_view certificates) {
  ASSIGN_OR_RETURN(const auto chain, ParseCertificates(certificates));
  const ASN1_TIME* begin = X509_get0_notBefore(chain.front().get());
  const ASN1_TIME* end = X509_get0_notAfter(chain.front().get());
  if (X509_cmp_current_time(end) < 0)
    return absl::FailedPreconditionError(Cat("the certificate has expired on ", DayOf(end)));
  if (X509_cmp_current_time(begin) > 0)
    return absl::FailedPreconditionError(Cat("the certificate is not valid before ", DayOf(begin)));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ExpiryOf(std::string_view certificates) {
  ASSIGN_OR_RETURN(const auto chain, ParseCertificates(certificates));
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const X509Ptr& certificate : chain) {
    std::tm end{};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1)
      return Invalid("a certificate's last day is none");
    first = std::min<int64_t>(first, timegm(&end));
  }
  return first;
}

absl::StatusOr<std::string> ReadCertificates(std::string_view field, const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFileOf(field, path, kMostBytes));
  if (const absl::Status status = CheckCertificates(text); !status.ok())
    return WrongFile(field, path, status);
  return text;
}

absl::StatusOr<std::string> ReadKey(std::string_view field, const std::string& path,
                                    std::string_view certificates) {
  ASSIGN_OR_RETURN(std::string text, ReadFileOf(field, path, kMostBytes));
  if (const absl::Status status = CheckKey(text, certificates); !status.ok())
    return WrongFile(field, path, status);
  return text;
}

absl::StatusOr<CertificateAndKey> NewSelfSigned(const std::string& name) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  const X509Ptr certificate(X509_new());
  if (key == nullptr || certificate == nullptr || !Sign(name, certificate.get(), key.get()))
    return absl::InternalError("libcrypto has made no certificate");
  return CertificateAndKey{.certificate = PemOf(*certificate), .key = PemOf(*key)};
}

}  // namespace heed
