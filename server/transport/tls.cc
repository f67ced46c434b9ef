#include "server/transport/tls.h"

#include <utility>

#include "engine/base/status.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "server/caught.h"

namespace heed {
namespace {

grpc_ssl_server_certificate_config* ToGrpc(const TlsTexts& texts, const std::string& own_certificate) {
  const grpc_ssl_pem_key_cert_pair pair{.private_key = texts.key.c_str(),
                                        .cert_chain = texts.certificate.c_str()};
  // gRPC wants some also where clients are asked for none.
  const std::string taken = Cat(texts.client_authority, "\n", own_certificate);
  return grpc_ssl_server_certificate_config_create(taken.c_str(), &pair, 1);
}

}  // namespace

absl::StatusOr<TlsTexts> ReadTls(const config::v1::TlsConfig& config) {
  TlsTexts texts;
  ASSIGN_OR_RETURN(texts.certificate, ReadCertificates("tls.certificate", config.certificate()));
  ASSIGN_OR_RETURN(texts.key, ReadKey("tls.key", config.key(), texts.certificate));
  if (!config.client_authority().empty()) {
    ASSIGN_OR_RETURN(texts.client_authority,
                     ReadCertificates("tls.client_authority", config.client_authority()));
  }
  return texts;
}

// gRPC's C++ library knows no credentials that ask for certificates before each handshake; its C library
// does, and keeps what it has where it gets none.
class PortTls::Credentials final : public grpc::ServerCredentials {
 public:
  explicit Credentials(PortTls* tls)
      : credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                tls->Now()->client_authority.empty()
                    ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                    : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
                Fetch, tls))) {}
  ~Credentials() override { grpc_server_credentials_release(credentials_); }

  // Who calls is looked at where each call begins (authorization.h).
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // Before each handshake.
  static grpc_ssl_certificate_config_reload_status Fetch(void* self,
                                                         grpc_ssl_server_certificate_config** config) {
    auto* tls = static_cast<PortTls*>(self);
    bool changed = false;
    const auto fetch = [&] {
      std::lock_guard lock(tls->mutex_);
      std::shared_ptr<const TlsTexts> now = tls->files_->Now();
      if (now == tls->given_) return absl::OkStatus();
      *config = ToGrpc(*now, tls->own_.certificate);
      tls->given_ = std::move(now);
      changed = true;
      return absl::OkStatus();
    };
    if (!Caught("no certificate", fetch, nullptr).ok()) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    return changed ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  }

  grpc_server_credentials* const credentials_;
};

absl::StatusOr<std::unique_ptr<PortTls>> PortTls::Read(const config::v1::TlsConfig& config,
                                                       std::function<void(const absl::Status&)> told,
                                                       const Clock* clock) {
  ASSIGN_OR_RETURN(auto files, Reloaded<TlsTexts>::Read(
                                   {.paths = {config.certificate(), config.key(), config.client_authority()},
                                    .read = [config] { return ReadTls(config); },
                                    .told = std::move(told)},
                                   clock));
  ASSIGN_OR_RETURN(CertificateAndKey own, NewSelfSigned("heed, calling itself"));
  return std::make_unique<PortTls>(std::move(files), std::move(own));
}

std::shared_ptr<grpc::ServerCredentials> PortTls::ServerSide() { return std::make_shared<Credentials>(this); }

std::shared_ptr<grpc::ChannelCredentials> PortTls::OwnClientSide() const {
  using grpc::experimental::StaticDataCertificateProvider;
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<StaticDataCertificateProvider>(
      own_.certificate, std::vector<grpc::experimental::IdentityKeyCertPair>{
                            {.private_key = own_.key, .certificate_chain = own_.certificate}}));
  options.watch_root_certs();  // else gRPC wants the system to have some
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(false);
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  options.set_check_call_host(false);
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace heed
