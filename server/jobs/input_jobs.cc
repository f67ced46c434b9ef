#include "server/jobs/input_jobs.h"

#include <algorithm>
#include <utility>

#include "server/error.h"

namespace heed {

InputJobs::InputJobs(Edge* edge, const ServedModel* model, int count)
    : edge_(edge),
      model_(model),
      count_(count),
      window_(std::max(1, model_->spec.scheduling.max_queued_jobs / 2)),
      jobs_(count) {}

void InputJobs::Start() { SubmitMore(); }

void InputJobs::SubmitMore() {
  while (const std::optional<int> i = TakeNext()) {
    absl::Status status = Submit(*i);
    if (status.ok()) continue;
    if (absl::IsResourceExhausted(status) && PutBack(*i)) return;
    if (absl::IsResourceExhausted(status)) {
      metrics_->Shed("queue_full");
      full_ = status = RetryAfter(status, model_->scheduler->expected_wait());
    }
    Refused(*i, status);
    Ended(*i);
  }
}

std::optional<int> InputJobs::TakeNext() {
  std::lock_guard lock(mutex_);
  if (next_ == count_ || outstanding_ == window_) {
    submitting_ = false;
    return std::nullopt;
  }
  ++outstanding_;
  return next_++;
}

absl::Status InputJobs::Submit(int i) {
  RETURN_IF_ERROR(full_);
  if (cancelled()) return Error(ErrorReason::kClientCancelled, "the client has gone");
  if (model_->scheduler->full()) {  // before the work of making a job
    return Error(ErrorReason::kQueueFull, "the queue of '", model_->spec.name, "' is full, it holds ",
                 model_->spec.scheduling.max_queued_jobs);
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Job> job, Make(i));
  {
    std::lock_guard lock(mutex_);
    jobs_[i] = job;
  }
  if (cancelled()) job->Cancel();
  return model_->scheduler->Submit(std::move(job), /*final=*/false);
}

// Waits for the request's other jobs, if there are any.
bool InputJobs::PutBack(int i) {
  std::lock_guard lock(mutex_);
  if (outstanding_ == 1) return false;
  --outstanding_;
  next_ = i;
  submitting_ = false;
  return true;
}

void InputJobs::Ended(int i) {
  std::shared_ptr<Job> job;  // destroyed outside the lock
  bool complete = false, more = false;
  {
    std::lock_guard lock(mutex_);
    job = std::move(jobs_[i]);
    --outstanding_;
    complete = ++ended_ == count_;
    more = !submitting_ && next_ < count_;
    if (more) submitting_ = true;
  }
  if (complete) edge_->answers().Run([self = shared_from_this()] { self->Complete(); });
  if (more) edge_->intake().Run([self = shared_from_this()] { self->SubmitMore(); });
}

void InputJobs::Cancel() {
  std::vector<std::shared_ptr<Job>> jobs;
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    jobs = jobs_;
  }
  for (const auto& job : jobs) {
    if (job) job->Cancel();
  }
}

bool InputJobs::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

}  // namespace heed
