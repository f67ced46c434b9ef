// The flags with which a command calls a server over TLS, and what it says where that does not work.
#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/testing/certificates.h"

namespace heed::cli {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

// A server that asks for certificates of `ours`, as it has one itself.
class TlsCommands : public testing::Test {
 protected:
  TlsCommands() {
    server_.classify = CallGood;
    const CertificateAndKey mine = ours_.Issue();
    authority_ = folder_.Write("authority", ours_.certificate());
    certificate_ = folder_.Write("certificate", mine.certificate);
    key_ = folder_.Write("key", mine.key);
  }
  std::shared_ptr<grpc::ServerCredentials> Credentials() const {
    const CertificateAndKey its = ours_.Issue();
    grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = ours_.certificate();
    options.pem_key_cert_pairs = {{.private_key = its.key, .cert_chain = its.certificate}};
    return grpc::SslServerCredentials(options);
  }
  Outcome Classify(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), "classify");
    flags.push_back("text");
    return RunAt(server_, flags);
  }

  const TempFolder folder_;
  const Authority ours_{"ours"};
  FakeServer server_{Credentials()};
  std::string authority_, certificate_, key_;
};

TEST_F(TlsCommands, CallWithWhatTheirFlagsName) {
  const Outcome run =
      Classify({"--tls-authority=" + authority_, "--tls-certificate=" + certificate_, "--tls-key=" + key_});
  EXPECT_EQ(run.exit, kDone) << run.err;
  EXPECT_THAT(run.out, HasSubstr("good 0.75"));
}

TEST_F(TlsCommands, TakeTheAuthorityFromTheEnvironment) {
  setenv("HEED_TLS_AUTHORITY", authority_.c_str(), 1);
  EXPECT_EQ(Classify({"--tls-certificate=" + certificate_, "--tls-key=" + key_}).exit, kDone);
  unsetenv("HEED_TLS_AUTHORITY");
}

TEST_F(TlsCommands, SayWhatIsWrongAndWhichFlagIsMissing) {
  const std::string at = Cat("the server at ", server_.address());
  EXPECT_EQ(Classify({}).err,
            Cat("heed: TLS_WANTED: ", at,
                " speaks TLS, and is called without\n--tls, or --tls_authority=FILE with the "
                "authority that has signed its certificate\n"));
  EXPECT_THAT(Classify({"--tls-authority=" + authority_}).err,
              AllOf(HasSubstr(Cat("heed: CLIENT_CERTIFICATE_WANTED: ", at, " wants a certificate")),
                    HasSubstr("\n--tls_certificate=FILE and --tls_key=FILE, ")));
  const std::string other = folder_.Write("other", Authority("theirs").certificate());
  EXPECT_THAT(Classify({"--tls-authority=" + other}).err,
              AllOf(HasSubstr("heed: CERTIFICATE_NOT_TRUSTED: "), HasSubstr("\n--tls_authority=FILE ")));
}

TEST_F(TlsCommands, RefuseFilesThatAreNotWhatTheyShouldBe) {
  EXPECT_THAT(Classify({"--tls-authority=/nowhere"}).err, HasSubstr("tls_authority is '/nowhere': "));
  EXPECT_THAT(Classify({"--tls-authority=" + key_}).err,
              HasSubstr(Cat("tls_authority is '", key_, "': there is no certificate in it")));
  EXPECT_THAT(Classify({"--tls-certificate=" + certificate_}).err,
              EndsWith("tls_key is empty: a client that shows a certificate needs its key, too\n"));
  const std::string other = folder_.Write("other", ours_.Issue().key);
  EXPECT_THAT(Classify({"--tls-certificate=" + certificate_, "--tls-key=" + other}).err,
              HasSubstr(Cat("tls_key is '", other, "': it is not the key of the certificate")));
  EXPECT_EQ(Classify({"--tls-key=" + key_}).exit, kFailed);
}

}  // namespace
}  // namespace heed::cli
