#include "server/services/edge.h"

#include <utility>

#include "engine/base/status.h"
#include "server/services/log.h"
#include "server/services/stream_call.h"
#include "server/services/wire.h"

namespace heed {
namespace {

constexpr Duration kCrowded = std::chrono::milliseconds(100);  // until some of the calls inside have left

Duration ToDuration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Edge::Edge(Metrics* metrics, const Clock* clock, const v1::ServerConfig& config)
    : metrics_(metrics), clock_(clock), config_(config), intake_(config.request_threads()), answers_(1) {}

absl::Status Edge::Enter(const Method& method) {
  metrics_->CallStarted(method.service, method.name);
  std::lock_guard lock(mutex_);
  ++(method.health ? asking_ : inside_);
  if (method.health) return absl::OkStatus();
  if (closed_) return absl::UnavailableError("the server is stopping");
  if (inside_ > limits().requests()) {
    return RetryAfter(absl::ResourceExhaustedError(
                          Cat("the server answers ", limits().requests(), " requests at a time, no more")),
                      kCrowded);
  }
  return absl::OkStatus();
}

void Edge::Leave(const Method& method, const absl::Status& status) {
  metrics_->CallHandled(method.service, method.name, status.code());
  if (absl::IsInternal(status)) {
    LogError(
        "call failed",
        {{"service", method.service}, {"method", method.name}, {"error", std::string(status.message())}});
  }
  std::lock_guard lock(mutex_);
  if (--(method.health ? asking_ : inside_) == 0) left_.notify_all();
}

void Edge::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

void Edge::WaitUntilDone(Time until) {
  std::unique_lock lock(mutex_);
  left_.wait_until(lock, until, [this] { return inside_ == 0; });
}

void Edge::WaitUntilEmpty(Time until) {
  std::unique_lock lock(mutex_);
  left_.wait_until(lock, until, [this] { return inside_ + asking_ == 0; });
}

int64_t Edge::inside() const {
  std::lock_guard lock(mutex_);
  return inside_;
}

Duration Edge::longest_call() const { return ToDuration(limits().deadline_seconds()); }

void Edge::Track(std::weak_ptr<StreamCall> stream) {
  std::lock_guard lock(mutex_);
  streams_.push_back(std::move(stream));
}

void Edge::Sweep() {
  std::vector<std::shared_ptr<StreamCall>> open;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(streams_, [](const auto& stream) { return stream.expired(); });
    for (const auto& stream : streams_) {
      if (auto alive = stream.lock()) open.push_back(std::move(alive));
    }
  }
  const Time latest = clock_->Now() - ToDuration(limits().stall_seconds());
  for (const auto& stream : open) stream->EndIfStalledSince(latest);
}

}  // namespace heed
