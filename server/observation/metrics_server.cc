#include "server/observation/metrics_server.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace heed {

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Listen(const std::string& address,
                                                                     Collectables collectables,
                                                                     Allows allows) {
  auto server = std::make_unique<MetricsServer>();
  server->collectables_ = std::move(collectables);
  try {  // the library throws
    server->exposer_ = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", address, "num_threads", "1", "request_timeout_ms", "5000",
                                 "max_request_size", "4096"});
  } catch (const std::exception&) {
    return Invalid("metrics_address is '", address, "', which cannot be listened on: the port may be taken");
  }
  if (allows) server->exposer_->RegisterAuth(std::move(allows), "heed");  // before there is anything to read
  for (const auto& collectable : server->collectables_) server->exposer_->RegisterCollectable(collectable);
  return server;
}

}  // namespace heed
