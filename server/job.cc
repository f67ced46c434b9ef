#include "server/job.h"

#include <utility>

#include "server/trace.h"

namespace heed {

void Wakeup::Notify() {
  {
    std::lock_guard lock(mutex_);
    pending_ = true;
  }
  notified_.notify_one();
}

void Wakeup::WaitUntil(Time time) {
  std::unique_lock lock(mutex_);
  auto pending = [this] { return pending_; };
  if (time == kNever) {
    notified_.wait(lock, pending);
  } else {
    notified_.wait_until(lock, time, pending);
  }
  pending_ = false;
}

void Job::TraceTo(std::shared_ptr<Trace> trace, int input) {
  trace_ = std::move(trace);
  trace_input_ = input;
}

void Job::Tell(TraceStep step) const {
  if (trace_ == nullptr) return;
  step.input = trace_input_;
  trace_->Add(step);
}

void Job::Cancel() {
  cancelled_.store(true, std::memory_order_release);
  Wake();
}

void Job::Wake() {
  std::lock_guard lock(mutex_);
  if (wakeup_) wakeup_->Notify();
}

Usage Job::Spent(int64_t input_tokens, int64_t output_tokens) const {
  return {.input_tokens = input_tokens,
          .output_tokens = output_tokens,
          .queued = times_.started - times_.submitted,
          .prefill = times_.prompted - times_.started,
          .decode = times_.stepped - times_.prompted};
}

void Job::WakeBy(std::shared_ptr<Wakeup> wakeup) {
  std::lock_guard lock(mutex_);
  wakeup_ = std::move(wakeup);
}

}  // namespace heed
