#include "server/edge.h"

#include <utility>
#include <vector>

#include "server/error.h"

namespace heed {
namespace {

constexpr Duration kCrowded = std::chrono::milliseconds(100);  // until some of the calls inside have left

// As the edge's threads tell it, which do not know for whom they work.
Failed OfTasks(const EdgeEvents& events) {
  if (!events.failed) return nullptr;
  return [failed = events.failed](std::string_view what) { failed(what, ""); };
}

}  // namespace

Edge::Edge(const Clock* clock, const EdgeOptions& options, EdgeEvents events)
    : clock_(clock),
      options_(options),
      events_(std::move(events)),
      streams_(1, OfTasks(events_)),
      answers_(options.answer_threads, OfTasks(events_)),
      intake_(options.intake_threads, OfTasks(events_)) {}

absl::Status Edge::Enter(const Method& method) {
  (void)Try([&] {
    if (events_.started) events_.started(method);
  });
  const absl::Status status = Admit(method);
  if (status.ok()) return status;
  (void)Try([&] {
    if (events_.refused) events_.refused(status);
  });
  return status;
}

absl::Status Edge::Admit(const Method& method) {
  std::lock_guard lock(mutex_);
  ++(method.health ? asking_ : inside_);
  if (method.health) return absl::OkStatus();
  if (closed_) return Error(ErrorReason::kServerStopping, "the server is stopping");
  if (inside_ <= options_.requests) return absl::OkStatus();
  return RetryAfter(Beyond(Error(ErrorReason::kTooManyRequests, "the server answers ", options_.requests,
                                 " requests at a time, no more"),
                           inside_, options_.requests),
                    kCrowded);
}

void Edge::Sent(const Method& method) const {
  if (events_.sent) events_.sent(method);
}

void Edge::Leave(const EndedCall& call) {
  (void)Try([&] {
    if (events_.handled) events_.handled(call);
  });
  std::lock_guard lock(mutex_);
  if (--(call.method.health ? asking_ : inside_) == 0) left_.notify_all();
}

void Edge::Unknown(const EndedCall& call) const {
  (void)Try([&] {
    if (events_.unknown) events_.unknown(call);
  });
}

absl::Status Edge::Try(absl::FunctionRef<void()> body, std::string_view request_id) const {
  const auto done = [&] {
    body();
    return absl::OkStatus();
  };
  const auto failed = [&](std::string_view what) {
    if (events_.failed) events_.failed(what, request_id);
  };
  return Caught("the server has failed on this call", done, failed);
}

std::shared_ptr<Trace> Edge::TraceOf(const Method& method, Time arrival, const TraceHeaders& headers) const {
  std::shared_ptr<Trace> trace;
  if (!method.health) (void)Try([&] { trace = events_.trace(method, arrival, headers); });
  return trace;
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

void Edge::Track(std::weak_ptr<Stallable> call) {
  std::lock_guard lock(mutex_);
  tracked_.insert(std::move(call));
}

void Edge::Untrack(const std::weak_ptr<Stallable>& call) {
  std::lock_guard lock(mutex_);
  tracked_.erase(call);
}

void Edge::Sweep() {
  std::vector<std::shared_ptr<Stallable>> open;
  {
    std::lock_guard lock(mutex_);
    for (const auto& call : tracked_) {
      if (auto alive = call.lock()) open.push_back(std::move(alive));
    }
  }
  const Time latest = clock_->Now() - options_.stall;
  for (const auto& call : open) call->EndIfStalledSince(latest);
}

}  // namespace heed
