// A server that speaks TLS, and what its clients have.
#ifndef HEED_TESTS_SERVER_SERVICE_TLS_WORLD_H_
#define HEED_TESTS_SERVER_SERVICE_TLS_WORLD_H_

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/client.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/server/service/world.h"
#include "tests/testing/certificates.h"

namespace heed {

// Files of a test's own. What is written takes the place of what was there, whole.
class PemFiles {
 public:
  std::string Write(const std::string& name, const std::string& text) const {
    folder_.Write("new", text);
    std::filesystem::rename(folder_ / "new", folder_ / name);
    return folder_ / name;
  }
  std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  const TempFolder folder_;
};

struct TlsWorldOptions {
  const Authority* clients = nullptr;  // which must have signed what clients show; null: they show nothing
  ProbeOptions probing = {};
  bool metrics = false;
};

class TlsWorld {
 public:
  explicit TlsWorld(const CertificateAndKey& shown, const TlsWorldOptions& options = {}) {
    config::v1::ServerConfig config = NewConfig();
    if (options.metrics) WithMetrics(config);
    AddModel("m", &config);
    config.mutable_tls()->set_certificate(files_.Write("certificate", shown.certificate));
    config.mutable_tls()->set_key(files_.Write("key", shown.key));
    if (options.clients != nullptr)
      config.mutable_tls()->set_client_authority(files_.Write("clients", options.clients->certificate()));
    auto server = Server::Listen(
        *WithModels(config), [](const ModelSpec&) { return WithBytes(NewFakeClassifier()); },
        options.probing);
    if (!server.ok()) ADD_FAILURE() << server.status();
    server_ = *std::move(server);
    EXPECT_TRUE(server_->Load().ok());
  }

  const Server& server() const { return *server_; }
  const PemFiles& files() const { return files_; }
  int port() const { return server_->port(); }
  std::string address() const { return Cat("127.0.0.1:", port()); }

  // A client that believes this authority, and shows this certificate.
  absl::StatusOr<Client> Connect(const Authority& believed,
                                 const std::optional<CertificateAndKey>& shown = std::nullopt) const {
    TlsFiles tls{.authority = files_.Write("believed", believed.certificate())};
    if (shown) tls.certificate = files_.Write("client-certificate", shown->certificate);
    if (shown) tls.key = files_.Write("client-key", shown->key);
    return Client::Connect(address(), {.timeout = absl::Seconds(20), .tls = tls});
  }

  // How a call of such a client ends.
  absl::Status Call(const Authority& believed,
                    const std::optional<CertificateAndKey>& shown = std::nullopt) const {
    const auto client = Connect(believed, shown);
    return client.ok() ? client->ListModels().status() : client.status();
  }

 private:
  PemFiles files_;
  std::unique_ptr<Server> server_;
};

}  // namespace heed

#endif  // HEED_TESTS_SERVER_SERVICE_TLS_WORLD_H_
