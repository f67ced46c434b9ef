#include "server/jobs/input_jobs.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "server/error.h"

namespace heed {

InputJobs::InputJobs(const RequestTerms& terms)
    : reserved_(std::make_shared<ReservedAnswer>(terms.memory)),
      terms_(terms),
      window_(std::max(1, terms.model->spec.scheduling.max_queued_jobs / 2)),
      jobs_(terms.inputs) {}

void InputJobs::Start() { SubmitMore(); }

void InputJobs::SubmitMore() {
  while (const std::optional<int> i = TakeNext()) {
    absl::Status status;
    const absl::Status thrown = edge().Try([&] { status = Submit(*i); }, terms_.request_id);
    if (!thrown.ok()) status = thrown;
    if (status.ok()) continue;
    if (ReasonOf(status) == ErrorReason::kQueueFull) {
      if (PutBack(*i)) return;
      Stop(status);
    }
    (void)edge().Try([&] { Refused(*i, status); }, terms_.request_id);
    Ended(*i);
  }
}

std::optional<int> InputJobs::TakeNext() {
  std::lock_guard lock(mutex_);
  if (next_ == terms_.inputs || outstanding_ == window_) {
    submitting_ = false;
    return std::nullopt;
  }
  ++outstanding_;
  return next_++;
}

absl::Status InputJobs::Submit(int i) {
  RETURN_IF_ERROR(MayGoOn());
  if (terms_.model->scheduler->full()) return Full();  // before the work of making a job
  ASSIGN_OR_RETURN(std::shared_ptr<Job> job, MadeOnce(i));
  RETURN_IF_ERROR(MayGoOn());  // who stops this from here on sees the job
  const absl::Status status = terms_.model->scheduler->Submit(std::move(job));
  return absl::IsResourceExhausted(status) ? Full() : status;
}

absl::Status InputJobs::MayGoOn() const {
  if (edge().clock().Now() >= terms_.urgency.deadline)
    return Error(ErrorReason::kDeadlineExceeded, "the deadline has passed");
  std::lock_guard lock(mutex_);
  return stopped_;
}

absl::StatusOr<std::shared_ptr<Job>> InputJobs::MadeOnce(int i) {
  {
    std::lock_guard lock(mutex_);
    if (jobs_[i]) return jobs_[i];  // it was put back
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Job> job, terms_.trace ? Traced(i) : Make(i));
  std::lock_guard lock(mutex_);
  return jobs_[i] = std::move(job);
}

absl::StatusOr<std::shared_ptr<Job>> InputJobs::Traced(int i) {
  TraceStep step{.kind = TraceStep::kTokenize, .begin = edge().clock().Now(), .input = i};
  absl::StatusOr<std::shared_ptr<Job>> job = Make(i);
  step.end = edge().clock().Now();
  step.failed = !job.ok();
  terms_.trace->Add(step);
  if (job.ok()) (*job)->TraceTo(terms_.trace, i);
  return job;
}

absl::Status InputJobs::Full() const {
  const ServedModel& model = *terms_.model;
  return RetryAfter(Error(ErrorReason::kQueueFull, "the queue of '", model.spec.name, "' is full, it holds ",
                          model.spec.scheduling.max_queued_jobs),
                    model.scheduler->expected_wait());
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
    complete = ++ended_ == terms_.inputs;
    more = !submitting_ && next_ < terms_.inputs;
    if (more) submitting_ = true;
  }
  if (complete) Complete();
  if (more) edge().intake().Run([self = shared_from_this()] { self->SubmitMore(); });
}

void InputJobs::Stop(const absl::Status& why) {
  std::vector<std::shared_ptr<Job>> jobs;
  {
    std::lock_guard lock(mutex_);
    if (!stopped_.ok()) return;
    stopped_ = why;
    jobs = jobs_;
  }
  for (const auto& job : jobs) {
    if (job) job->Cancel();
  }
}

absl::Status InputJobs::Reserve(int64_t bytes) {
  const absl::Status status = reserved_->Add(bytes);
  if (status.ok()) return status;
  {
    std::lock_guard lock(mutex_);
    refusal_ = status;
  }
  Stop(status);
  return status;
}

absl::Status InputJobs::refusal() const {
  std::lock_guard lock(mutex_);
  return refusal_;
}

}  // namespace heed
