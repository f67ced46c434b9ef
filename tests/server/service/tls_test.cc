// TLS between real servers and real clients, with certificates of the test's own: row L22 of the failure
// catalogue (reference/serving.md 2.6). Who does not get in is told why, by what its own side sees.
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/grpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "openssl/ssl.h"
#include "server/observation/log.h"
#include "server/transport/tls.h"
#include "tests/server/service/raw_http2.h"
#include "tests/server/service/tls_world.h"

namespace heed {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

const Authority& Ours() {
  static const Authority authority("ours");
  return authority;
}
const Authority& Theirs() {
  static const Authority authority("theirs");
  return authority;
}

void ExpectWhy(const absl::Status& status, const std::string& reason, const std::string& sentence) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(DetailsOf(status).reason, reason) << status;
  EXPECT_THAT(std::string(status.message()), MatchesRegex(sentence));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("KEY")));
}

TEST(Tls, AnswersWhoBelievesItsAuthority) {
  const TlsWorld world(Ours().Issue());
  const auto client = world.Connect(Ours());
  ASSERT_TRUE(client.ok()) << client.status();
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("four");
  const auto answer = client->Classify(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->results(0).value().labels(0).label(), "yes");
}

TEST(Tls, WhoBelievesAnotherAuthorityIsToldSo) {
  const TlsWorld world(Ours().Issue());
  ExpectWhy(
      world.Call(Theirs()), "CERTIFICATE_NOT_TRUSTED",
      "no authority that is trusted here has signed the certificate of the server at 127.*: .*issuer.*");
}

TEST(Tls, AnExpiredCertificateIsToldWithItsDay) {
  FlushLog();
  testing::internal::CaptureStderr();
  const TlsWorld world(Ours().Issue({.begins = -3, .ends = -1}));
  ExpectWhy(world.Call(Ours()), "CERTIFICATE_EXPIRED",
            "the certificate of the server at 127.* has expired on 20..-..-..");
  FlushLog();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the certificate has expired on 20"));
}

TEST(Tls, ACertificateOfAnotherIsToldWithItsNames) {
  const TlsWorld world(Ours().Issue({.names = "DNS:heed.example,IP:10.0.0.1"}));
  ExpectWhy(world.Call(Ours()), "CERTIFICATE_OF_ANOTHER",
            "the certificate of the server at 127.* is for heed.example, 10.0.0.1, not for 127.0.0.1");
}

TEST(Tls, APlainClientIsToldThatTheServerSpeaksTls) {
  const TlsWorld world(Ours().Issue());
  const auto client = Client::Connect(world.address());
  ASSERT_TRUE(client.ok());
  ExpectWhy(client->ListModels().status(), "TLS_WANTED",
            "the server at 127.* speaks TLS, and is called without");
}

TEST(Tls, AClientIsToldThatTheServerSpeaksNone) {
  auto world = World::Ready(OneClassifier());
  const PemFiles files;
  const TlsFiles tls{.authority = files.Write("believed", Ours().certificate())};
  const auto client = Client::Connect(world->address(), {.timeout = absl::Seconds(20), .tls = tls});
  ASSERT_TRUE(client.ok());
  ExpectWhy(client->ListModels().status(), "TLS_NOT_SPOKEN",
            "the server at 127.* answers, but not in TLS 1.2 or 1.3");
}

// Whether a client of this version alone gets anything from the server; `protocols` as ALPN has them.
bool Speaks(int port, int version, const std::string& protocols) {
  const std::unique_ptr<SSL_CTX, FreedBy<SSL_CTX_free>> context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_security_level(context.get(), 0);  // else our own side refuses the old ones
  SSL_CTX_set_min_proto_version(context.get(), version);
  SSL_CTX_set_max_proto_version(context.get(), version);
  const std::unique_ptr<BIO, FreedBy<BIO_free_all>> connection(BIO_new_ssl_connect(context.get()));
  SSL* ssl = nullptr;
  BIO_get_ssl(connection.get(), &ssl);
  SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(protocols.data()),
                      static_cast<unsigned>(protocols.size()));
  BIO_set_conn_hostname(connection.get(), Cat("127.0.0.1:", port).c_str());
  char byte;
  return BIO_do_handshake(connection.get()) == 1 && BIO_read(connection.get(), &byte, 1) == 1;
}

TEST(Tls, SpeaksItsVersionsAndHttp2Only) {
  const TlsWorld world(Ours().Issue());
  EXPECT_TRUE(Speaks(world.port(), TLS1_3_VERSION, "\x02h2"));
  EXPECT_TRUE(Speaks(world.port(), TLS1_2_VERSION, "\x02h2"));
  EXPECT_FALSE(Speaks(world.port(), TLS1_1_VERSION, "\x02h2"));
  EXPECT_FALSE(Speaks(world.port(), TLS1_VERSION, "\x02h2"));
  EXPECT_FALSE(Speaks(world.port(), TLS1_3_VERSION, "\x08http/1.1"));
  EXPECT_FALSE(Speaks(world.port(), TLS1_3_VERSION, ""));
}

TEST(Tls, NoServerIsNoServer) {
  std::string address;
  {
    address = TlsWorld(Ours().Issue()).address();
  }
  const PemFiles files;
  const TlsFiles tls{.authority = files.Write("believed", Ours().certificate())};
  EXPECT_EQ(Client::Connect(address, {.tls = tls})->ListModels().status(),
            absl::UnavailableError(Cat("no server at ", address, ": start one with `heed serve`")));
}

TEST(MutualTls, TakesWhomItsAuthorityHasSigned) {
  const TlsWorld world(Ours().Issue(), {.clients = &Theirs()});
  EXPECT_EQ(world.Call(Ours(), Theirs().Issue()), absl::OkStatus());
}

TEST(MutualTls, TellsTheOthersWhy) {
  const TlsWorld world(Ours().Issue(), {.clients = &Theirs()});
  ExpectWhy(world.Call(Ours()), "CLIENT_CERTIFICATE_WANTED",
            "the server at 127.* wants a certificate of its clients, and there is none");
  ExpectWhy(world.Call(Ours(), Ours().Issue()), "CLIENT_CERTIFICATE_REFUSED",
            "the server at 127.* does not take the client's certificate");
  ExpectWhy(world.Call(Ours(), Theirs().Issue({.begins = -3, .ends = -1})), "CLIENT_CERTIFICATE_REFUSED",
            "the server at 127.* does not take the client's certificate: it has expired on 20..-..-..");
}

TEST(MutualTls, WhoIsRefusedLeavesNothingOfItselfInTheLog) {
  FlushLog();
  testing::internal::CaptureStderr();
  {
    const TlsWorld world(Ours().Issue(), {.clients = &Theirs()});
    EXPECT_FALSE(world.Call(Ours(), Ours().Issue()).ok());
    RawClient plain(world.port());
    plain.Send("secret words, and no handshake\r\n\r\n");
    EXPECT_TRUE(plain.Closed());
  }
  FlushLog();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("secret")));
}

// What the listener's probe asks for goes all the way: it is counted as a call.
TEST(MutualTls, TheServerReachesItself) {
  const TlsWorld world(Ours().Issue(), {.clients = &Theirs(),
                                        .probing = {.every = milliseconds(1), .patience = seconds(20)},
                                        .metrics = true});
  EXPECT_TRUE(Eventually([&] {
    return MetricSum(Metrics(world.server()), "grpc_server_handled_total",
                     {"grpc_code=\"OK\"", "grpc_method=\"Check\""}) >= 3;
  }));
  EXPECT_EQ(MetricSum(Metrics(world.server()), "heed_listener_up"), 1);
}

// A scrape sees new files, too, though nobody connects.
TEST(Tls, MetricsSayWhenTheCertificateExpires) {
  const CertificateAndKey before = Ours().Issue({.ends = 2}), after = Ours().Issue({.ends = 50});
  const TlsWorld world(before, {.metrics = true});
  const auto told = [&] {
    return MetricSum(Metrics(world.server()), "heed_tls_certificate_expiry_timestamp_seconds");
  };
  EXPECT_EQ(told(), ExpiryOf(before.certificate).value());
  world.files().Write("certificate", after.certificate);
  world.files().Write("key", after.key);
  EXPECT_TRUE(Eventually([&] { return told() == ExpiryOf(after.certificate).value(); }));
}

// ------------------------------------------------------------------------------------------------ the files

class TlsFilesOfAServer : public testing::Test {
 protected:
  void SetUp() override {
    const CertificateAndKey pair = Ours().Issue();
    config_.set_certificate(files_.Write("certificate", pair.certificate));
    config_.set_key(files_.Write("key", pair.key));
    config_.set_client_authority(files_.Write("clients", Theirs().certificate()));
  }
  void ExpectRefused(const std::string& message) const {
    EXPECT_THAT(std::string(ReadTls(config_).status().message()), MatchesRegex(message));
    config::v1::ServerConfig server = NewConfig();
    AddModel("m", &server);
    *server.mutable_tls() = config_;
    EXPECT_THAT(std::string(Server::Listen(server).status().message()), MatchesRegex(message));
    EXPECT_THAT(std::string(CheckServer(server).status().message()), MatchesRegex(message));
  }

  const PemFiles files_;
  config::v1::TlsConfig config_;
};

TEST_F(TlsFilesOfAServer, AreReadWhereTheyAreFine) {
  const auto texts = ReadTls(config_);
  ASSERT_TRUE(texts.ok()) << texts.status();
  EXPECT_THAT(texts->key, HasSubstr("PRIVATE KEY"));
}

TEST_F(TlsFilesOfAServer, ThatAreNotThereAreNamed) {
  config_.set_key(files_ / "none");
  ExpectRefused("tls.key is '.*/none': .*No such file or directory");
}

TEST_F(TlsFilesOfAServer, ThatAreNoFilesAreNamed) {
  config_.set_certificate(std::filesystem::path(config_.certificate()).parent_path());
  ExpectRefused("tls.certificate is '.*': .*is not a regular file");
}

TEST_F(TlsFilesOfAServer, ThatHoldSomethingElseAreNamed) {
  config_.set_certificate(config_.key());
  ExpectRefused("tls.certificate is '.*/key': there is no certificate in it: .*");
  SetUp();
  config_.set_key(config_.certificate());
  ExpectRefused("tls.key is '.*/certificate': there is no private key in it: .*");
  SetUp();
  config_.set_client_authority(config_.key());
  ExpectRefused("tls.client_authority is '.*/key': there is no certificate in it: .*");
}

TEST_F(TlsFilesOfAServer, ThatDoNotBelongTogetherAreNamed) {
  config_.set_key(files_.Write("other", Ours().Issue().key));
  ExpectRefused("tls.key is '.*/other': it is not the key of the certificate");
}

// ------------------------------------------------------------------------------------------------- rotation

// Calls without a pause, each counted, until it goes.
class Load {
 public:
  explicit Load(Client client)
      : thread_([this, client = std::move(client)](std::stop_token stop) {
          v1::ClassifyRequest request;
          request.add_inputs()->set_text("four");
          while (!stop.stop_requested()) ++(client.Classify(request).ok() ? answered_ : failed_);
        }) {}
  int answered() const { return answered_; }
  int failed() const { return failed_; }

 private:
  std::atomic<int> answered_ = 0, failed_ = 0;
  std::jthread thread_;
};

TEST(TlsRotation, DropsNoCallAndNewConnectionsMeetTheNewCertificate) {
  const TlsWorld world(Ours().Issue());
  const Load load(*world.Connect(Ours()));
  ASSERT_TRUE(Eventually([&] { return load.answered() > 10; }));
  const CertificateAndKey next = Theirs().Issue();
  world.files().Write("certificate", next.certificate);  // for a moment it has another's key
  EXPECT_EQ(world.Call(Ours()), absl::OkStatus());
  world.files().Write("key", next.key);
  EXPECT_TRUE(Eventually([&] { return world.Call(Theirs()).ok(); }));
  const int before = load.answered();
  EXPECT_TRUE(Eventually([&] { return load.answered() > before + 10; }));  // on the connection that it has
  EXPECT_EQ(load.failed(), 0);
}

TEST(TlsRotation, FilesThatAreWrongChangeNothingAndAreLogged) {
  FlushLog();
  testing::internal::CaptureStderr();
  {
    const TlsWorld world(Ours().Issue());
    EXPECT_EQ(world.Call(Ours()), absl::OkStatus());
    world.files().Write("certificate", "not one");
    std::string log;
    EXPECT_TRUE(Eventually([&] {  // it is looked at when somebody connects, once a second
      EXPECT_EQ(world.Call(Ours()), absl::OkStatus());
      FlushLog();
      log += testing::internal::GetCapturedStderr();
      testing::internal::CaptureStderr();
      return log.find("changed files not taken") != log.npos;
    }));
    EXPECT_THAT(log, HasSubstr("tls.certificate is '"));
    EXPECT_EQ(world.Call(Ours()), absl::OkStatus());
  }
  FlushLog();
  testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace heed
