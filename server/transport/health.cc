#include "server/transport/health.h"

#include <optional>
#include <utility>
#include <vector>

#include "server/error.h"
#include "server/methods.h"
#include "server/transport/stream_call.h"
#include "server/transport/unary_call.h"
#include "server/transport/wire.h"

namespace heed {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr size_t kMaxName = 200;

absl::Status CheckName(const std::string& name) {
  if (name.size() <= kMaxName) return absl::OkStatus();
  return AtField(Invalid("the name has ", name.size(), " bytes, at most ", kMaxName, " are read"), "service");
}

}  // namespace

// One client that watches one name: tells the status whenever it is another than the last one told.
class HealthService::Watching final : public StreamCall {
 public:
  Watching(HealthService* health, grpc::CallbackServerContext* context, const grpc::ByteBuffer* request)
      : StreamCall(health->edge_, kWatch, context, request), health_(health) {}

 private:
  absl::Status Open(const grpc::ByteBuffer& bytes) override {
    HealthCheckRequest request;
    RETURN_IF_ERROR(Parse(bytes, &request));
    RETURN_IF_ERROR(CheckName(request.service()));
    name_ = request.service();
    return health_->Add(std::static_pointer_cast<Watching>(shared_from_this()));
  }

  Next Take() override {
    Next next;
    bool ended;
    {
      std::lock_guard lock(health_->mutex_);
      ended = health_->ended_;
    }
    const Status now = health_->StatusOf(name_);
    if (told_ != now) {
      told_ = now;
      HealthCheckResponse response;
      response.set_status(now);
      next.message = Serialize(response);
    } else if (ended) {
      next.end = Error(ErrorReason::kServerStopping, "the server is stopping");
    }
    return next;
  }

  void Abandon(bool) override {}
  void Closed() override { health_->Remove(std::static_pointer_cast<Watching>(shared_from_this())); }

  HealthService* const health_;
  std::string name_;
  std::optional<Status> told_;
};

HealthService::Status HealthService::StatusOf(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto found = serving_.find(name);
  if (found == serving_.end()) return HealthCheckResponse::SERVICE_UNKNOWN;
  const bool serving = found->second && !ended_ && (reachable_ || !name.empty());
  return serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

void HealthService::Set(const std::string& name, bool serving) {
  {
    std::lock_guard lock(mutex_);
    serving_[name] = serving;
  }
  WakeAll();
}

void HealthService::SetReachable(bool reachable) {
  {
    std::lock_guard lock(mutex_);
    reachable_ = reachable;
  }
  WakeAll();
}

void HealthService::End() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  WakeAll();
}

void HealthService::WakeAll() {
  std::vector<std::shared_ptr<Watching>> watches;
  {
    std::lock_guard lock(mutex_);
    watches.assign(watches_.begin(), watches_.end());
  }
  for (const auto& watch : watches) watch->Wake();
}

absl::Status HealthService::Add(std::shared_ptr<Watching> watch) {
  std::lock_guard lock(mutex_);
  if (watches_.size() >= max_watches_)
    return Error(ErrorReason::kTooManyWatches, "there are ", max_watches_, " watches, no more are taken");
  watches_.insert(std::move(watch));
  return absl::OkStatus();
}

void HealthService::Remove(std::shared_ptr<Watching> watch) {
  std::lock_guard lock(mutex_);
  watches_.erase(watch);
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return UnaryCall<HealthCheckRequest, HealthCheckResponse>::Start(
      edge_, kCheck, context, request, response, [this](auto call) {
        const std::string& name = call->request().service();
        if (absl::Status status = CheckName(name); !status.ok()) return call->Fail(status);
        const Status now = StatusOf(name);
        if (now == HealthCheckResponse::SERVICE_UNKNOWN)
          return call->Fail(Error(ErrorReason::kServiceNotFound, "nothing of this name is served"));
        HealthCheckResponse answer;
        answer.set_status(now);
        call->Answer(answer);
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* HealthService::Watch(grpc::CallbackServerContext* context,
                                                                 const grpc::ByteBuffer* request) {
  auto watch = std::make_shared<Watching>(this, context, request);
  watch->Begin();
  return watch.get();
}

}  // namespace heed
