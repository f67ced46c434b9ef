#include "engine/base/certificates.h"

#include <cstdint>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "openssl/pem.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/testing/certificates.h"

namespace heed {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Encrypted(const std::string& key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  const auto parsed = ParseKey(key);
  PEM_write_bio_PKCS8PrivateKey(bio.get(), parsed->get(), EVP_aes_128_cbc(), "secret", 6, nullptr, nullptr);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<size_t>(size)};
}

TEST(Certificates, OfOneChainAreReadAndOthersAreNot) {
  const Authority authority("ours");
  const std::string leaf = authority.Issue().certificate;
  EXPECT_EQ(CheckCertificates(leaf), absl::OkStatus());
  EXPECT_EQ(CheckCertificates(leaf + authority.certificate()), absl::OkStatus());
  EXPECT_EQ(ParseCertificates(leaf + authority.certificate())->size(), 2u);
  EXPECT_THAT(CheckCertificates("").message(), HasSubstr("there is no certificate in it"));
  EXPECT_THAT(CheckCertificates("hello").message(), HasSubstr("there is no certificate in it"));
  EXPECT_THAT(CheckCertificates(authority.Issue().key).message(), HasSubstr("there is no certificate in it"));
  EXPECT_THAT(CheckCertificates(leaf + authority.certificate().substr(0, 200)).message(),
              HasSubstr("certificate 2 of it is damaged"));
}

TEST(Certificates, HaveOneKeyThatFits) {
  const Authority authority("ours");
  const CertificateAndKey one = authority.Issue(), other = authority.Issue();
  EXPECT_EQ(CheckKey(one.key, one.certificate), absl::OkStatus());
  EXPECT_EQ(CheckKey(one.key, other.certificate),
            absl::InvalidArgumentError("it is not the key of the certificate"));
  EXPECT_THAT(CheckKey(one.certificate, one.certificate).message(),
              HasSubstr("there is no private key in it"));
  const absl::Status encrypted = CheckKey(Encrypted(one.key), one.certificate);
  EXPECT_THAT(encrypted.message(), HasSubstr("it is encrypted"));
}

TEST(Certificates, OfFilesAreToldWithFieldAndFile) {
  const Authority authority("ours");
  const CertificateAndKey pair = authority.Issue();
  const TempFolder folder;
  const std::string certificate = folder.Write("certificate", pair.certificate),
                    key = folder.Write("key", pair.key);
  EXPECT_EQ(ReadCertificates("field", certificate).value(), pair.certificate);
  EXPECT_EQ(ReadKey("field", key, pair.certificate).value(), pair.key);
  EXPECT_THAT(ReadCertificates("field", key).status().message(),
              HasSubstr(Cat("field is '", key, "': there is no certificate in it")));
  EXPECT_THAT(ReadKey("field", certificate, pair.certificate).status().message(),
              HasSubstr(Cat("field is '", certificate, "': there is no private key in it")));
}

TEST(Certificates, AreValidForATime) {
  const Authority authority("ours");
  EXPECT_EQ(CheckDates(authority.Issue().certificate), absl::OkStatus());
  const absl::Status expired = CheckDates(authority.Issue({.begins = -3, .ends = -1}).certificate);
  EXPECT_EQ(expired.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(expired.message(), testing::MatchesRegex("the certificate has expired on 20..-..-.."));
  EXPECT_THAT(CheckDates(authority.Issue({.begins = 2, .ends = 3}).certificate).message(),
              HasSubstr("the certificate is not valid before 20"));
}

TEST(Certificates, ExpireWithTheFirstOfThem) {
  constexpr int64_t kDay = 24 * 3600;
  const Authority authority("ours");
  const std::string certificate = authority.Issue({.ends = 1}).certificate;
  const int64_t expiry = ExpiryOf(certificate).value();
  EXPECT_NEAR(expiry, absl::ToUnixSeconds(absl::Now()) + kDay, 600);
  EXPECT_EQ(ExpiryOf(Cat(certificate, authority.certificate())).value(),
            expiry);  // the authority's lasts longer
  const std::string expired = authority.Issue({.begins = -3, .ends = -2}).certificate;
  EXPECT_NEAR(ExpiryOf(Cat(certificate, expired)).value(), expiry - 3 * kDay, 600);
  EXPECT_EQ(ExpiryOf("words").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Certificates, OfOnesOwnAreNewEachTime) {
  const auto one = NewSelfSigned("me"), other = NewSelfSigned("me");
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(CheckKey(one->key, one->certificate), absl::OkStatus());
  EXPECT_EQ(CheckDates(one->certificate), absl::OkStatus());
  EXPECT_NE(one->key, other->key);
  EXPECT_THAT(one->certificate, Not(HasSubstr("PRIVATE")));
}

}  // namespace
}  // namespace heed
