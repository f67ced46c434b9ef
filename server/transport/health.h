// The standard health service. Names: "" for the whole server, the services' full names, the models' names.
#ifndef HEED_SERVER_TRANSPORT_HEALTH_H_
#define HEED_SERVER_TRANSPORT_HEALTH_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/edge.h"

namespace heed {

// Thread-safe. Watches are open for as long as clients like, so their number is bounded, and End() ends them:
// else a server's shutdown would wait for them.
class HealthService final
    : public grpc::health::v1::Health::WithRawCallbackMethod_Check<
          grpc::health::v1::Health::WithRawCallbackMethod_Watch<grpc::health::v1::Health::Service>> {
 public:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  HealthService(Edge* edge, int max_watches) : edge_(edge), max_watches_(static_cast<size_t>(max_watches)) {}

  void Set(const std::string& name, bool serving);
  // Whether new clients can come at all: if not, the server as a whole ("") is NOT_SERVING.
  void SetReachable(bool reachable);
  // Everything is NOT_SERVING from here on; who watches is told so, and then no more.
  void End();

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override;

 private:
  class Watching;
  Status StatusOf(const std::string& name) const;  // SERVICE_UNKNOWN for a name that was never set
  absl::Status Add(std::shared_ptr<Watching> watch);
  void Remove(std::shared_ptr<Watching> watch);
  void WakeAll();

  Edge* const edge_;
  const size_t max_watches_;
  mutable std::mutex mutex_;
  std::map<std::string, bool, std::less<>> serving_;  // guarded by mutex_
  bool reachable_ = true;                             // guarded by mutex_
  bool ended_ = false;                                // guarded by mutex_
  std::set<std::shared_ptr<Watching>> watches_;       // guarded by mutex_
};

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_HEALTH_H_
