#include "engine/base/x509.h"

#include <ctime>

#include "absl/strings/str_format.h"
#include "engine/base/status.h"
#include "openssl/err.h"
#include "openssl/pem.h"

namespace heed {
namespace {

BioPtr Reading(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string Written(const BioPtr& bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return size > 0 ? std::string(bytes, static_cast<size_t>(size)) : "";
}

// True if the reader has stopped for there being no more.
bool AtEnd() {
  const bool end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  return end;
}

// Gives no password, and remembers that one was wanted.
int NoPassword(char*, int, int, void* wanted) {
  *static_cast<bool*>(wanted) = true;
  return -1;
}

}  // namespace

absl::StatusOr<std::vector<X509Ptr>> ParseCertificates(std::string_view pem) {
  ERR_clear_error();
  const BioPtr bio = Reading(pem);
  std::vector<X509Ptr> certificates;
  while (X509* read = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))
    certificates.emplace_back(read);
  if (!AtEnd()) return Invalid("certificate ", certificates.size() + 1, " of it is damaged");
  if (certificates.empty()) return Invalid("there is no certificate in it: -----BEGIN CERTIFICATE-----");
  return certificates;
}

absl::StatusOr<KeyPtr> ParseKey(std::string_view pem) {
  const BioPtr bio = Reading(pem);
  bool encrypted = false;
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, &encrypted));
  ERR_clear_error();
  if (encrypted) return Invalid("it is encrypted, and nobody is there to give a password");
  if (key == nullptr) return Invalid("there is no private key in it: -----BEGIN PRIVATE KEY-----");
  return key;
}

std::string PemOf(const X509& certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), &certificate);
  return Written(bio);
}

std::string PemOf(const EVP_PKEY& key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr);
  return Written(bio);
}

std::string DayOf(const ASN1_TIME* time) {
  std::tm day{};
  if (ASN1_TIME_to_tm(time, &day) != 1) return "an unknown day";
  return absl::StrFormat("%04d-%02d-%02d", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

}  // namespace heed
