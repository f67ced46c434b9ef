// Authorities and certificates of a test's own.
//
//   const Authority authority("ours");
//   const CertificateAndKey server = authority.Issue({.names = "DNS:localhost"});
#ifndef HEED_TESTS_TESTING_CERTIFICATES_H_
#define HEED_TESTS_TESTING_CERTIFICATES_H_

#include <string.h>

#include <string>

#include "absl/log/check.h"
#include "engine/base/certificates.h"
#include "engine/base/x509.h"
#include "openssl/ec.h"
#include "openssl/x509v3.h"

namespace heed {

struct CertificateOptions {
  std::string names = "DNS:localhost,IP:127.0.0.1";  // whom it is for
  int begins = -1, ends = 1;                         // in so many days
};

class Authority {
 public:
  explicit Authority(const std::string& name)
      : key_(EVP_EC_gen("P-256")), certificate_(New(name, key_.get(), {.begins = -100, .ends = 100})) {
    Extend(NID_basic_constraints, "critical,CA:TRUE", certificate_.get());
    Sign(certificate_.get());
  }

  std::string certificate() const { return PemOf(*certificate_); }

  CertificateAndKey Issue(const CertificateOptions& options = {}) const {
    const KeyPtr key(EVP_EC_gen("P-256"));
    const X509Ptr certificate = New("of a test", key.get(), options);
    Extend(NID_subject_alt_name, options.names, certificate.get());
    Sign(certificate.get());
    return {.certificate = PemOf(*certificate), .key = PemOf(*key)};
  }

 private:
  static X509Ptr New(const std::string& name, EVP_PKEY* key, const CertificateOptions& options) {
    static long serial = 0;
    X509Ptr certificate(X509_new());
    X509_set_version(certificate.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), ++serial);
    X509_time_adj_ex(X509_getm_notBefore(certificate.get()), options.begins, 0, nullptr);
    X509_time_adj_ex(X509_getm_notAfter(certificate.get()), options.ends, 0, nullptr);
    CHECK_EQ(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                                        reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0),
             1);
    X509_set_pubkey(certificate.get(), key);
    return certificate;
  }

  static void Extend(int nid, const std::string& value, X509* certificate) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
    X509V3_set_ctx_nodb(&context);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
    CHECK(extension != nullptr) << value;
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  void Sign(X509* certificate) const {
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate_.get()));
    CHECK_GT(X509_sign(certificate, key_.get(), EVP_sha256()), 0);
  }

  const KeyPtr key_;
  const X509Ptr certificate_;
};

}  // namespace heed

#endif  // HEED_TESTS_TESTING_CERTIFICATES_H_
