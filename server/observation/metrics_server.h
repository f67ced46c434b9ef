// GET /metrics over HTTP, on a thread of its own.
#ifndef HEED_SERVER_OBSERVATION_METRICS_SERVER_H_
#define HEED_SERVER_OBSERVATION_METRICS_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "prometheus/exposer.h"
#include "server/observation/snapshot.h"

namespace heed {

class MetricsServer {
 public:
  // Whether who shows this, by HTTP's Basic authentication, may read. Called on the thread; throws nothing.
  using Allows = std::function<bool(const std::string& name, const std::string& token)>;

  // INVALID_ARGUMENT if the address cannot be had. What the collectables and `allows` use must outlive it.
  // Without `allows` whoever asks may read.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Listen(const std::string& address,
                                                               Collectables collectables, Allows allows);

  int port() const { return exposer_->GetListeningPorts().front(); }

 private:
  Collectables collectables_;  // the exposer only borrows them
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_METRICS_SERVER_H_
