// TLS of the port: certificate and key of the server, and, where clients have to show certificates too, the
// authorities that these must be signed by. TLS 1.2 and 1.3. The files are looked at again whenever somebody
// connects; who is connected stays so.
#ifndef HEED_SERVER_TRANSPORT_TLS_H_
#define HEED_SERVER_TRANSPORT_TLS_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/certificates.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "heed/config/v1/config.pb.h"
#include "server/clock.h"
#include "server/reloaded.h"

namespace heed {

// The texts of the files.
struct TlsTexts {
  std::string certificate, key;
  std::string client_authority;  // empty: clients show no certificate
};

// INVALID_ARGUMENT with the field, the file and what is wrong: it cannot be read, is no certificate or key,
// the key is encrypted, or not that of the certificate.
absl::StatusOr<TlsTexts> ReadTls(const config::v1::TlsConfig& config);

// Thread-safe.
class PortTls {
 public:
  // `told`: how reading changed files has gone; those before stay where it fails. An expired certificate is
  // read like any other.
  static absl::StatusOr<std::unique_ptr<PortTls>> Read(const config::v1::TlsConfig& config,
                                                       std::function<void(const absl::Status&)> told,
                                                       const Clock* clock = &Clock::Real());
  PortTls(std::unique_ptr<Reloaded<TlsTexts>> files, CertificateAndKey own)
      : files_(std::move(files)), own_(std::move(own)) {}

  std::shared_ptr<const TlsTexts> Now() { return files_->Now(); }

  // For one port of one server, which this must outlive.
  std::shared_ptr<grpc::ServerCredentials> ServerSide();

  // For the server's calls to itself: believes any certificate, and shows one that this server takes.
  std::shared_ptr<grpc::ChannelCredentials> OwnClientSide() const;

 private:
  class Credentials;

  const std::unique_ptr<Reloaded<TlsTexts>> files_;
  const CertificateAndKey own_;  // taken beside those that an authority has signed
  std::mutex mutex_;
  std::shared_ptr<const TlsTexts> given_;  // to gRPC, last; guarded by mutex_
};

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_TLS_H_
