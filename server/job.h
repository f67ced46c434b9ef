// Every request is a Job: it says which rows come next and takes what comes back. A classification takes once, a
// generation until it stops, a scheduler serves both in one loop and knows neither.
#ifndef HEED_SERVER_JOB_H_
#define HEED_SERVER_JOB_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "engine/models/model.h"
#include "server/clock.h"

namespace heed {

// What the scheduler must know before it admits a job. Fixed when the job is submitted.
struct JobTerms {
  int priority = 0;          // higher goes first
  Time deadline = kNever;    // DEADLINE_EXCEEDED at the next chance after it
  int64_t rows = 1;          // rows that its first phase needs (a prompt, a whole document)
  int64_t bytes = 0;         // the most state it ever holds (Model::StateBytes): reserved from admission to the end
  bool whole = false;        // its rows must be in one pass (an encoder's)
};

// Lives from Submit() to End(). All virtuals are called by the scheduler's thread, one at a time; they must not block.
class Job {
 public:
  explicit Job(JobTerms terms) : terms_(terms) {}
  virtual ~Job() = default;
  const JobTerms& terms() const { return terms_; }

  // Rows it could use in the next step, 0 while it is paused (its reader is slow). More than a step may hold, for a long
  // prompt.
  virtual int64_t Rows() const = 0;
  // Appends its next work: at least one and at most `rows` rows in all, cut at kGrid; the whole when terms().whole.
  // The works refer to the job's own sequences.
  virtual void Next(int64_t rows, std::vector<Work>* batch) = 0;
  // After the pass with its work, whose results came through Work::read. True: it has finished; End(OK) follows at once.
  virtual bool Take() = 0;
  // The last call: with OK after Take() returned true, or with the reason why it ends early: DEADLINE_EXCEEDED, CANCELLED,
  // UNAVAILABLE, INTERNAL, RESOURCE_EXHAUSTED. It answers its client and gives back its memory.
  virtual void End(const absl::Status& status) = 0;

  // May be called from any thread, any number of times: the job ends with CANCELLED at the scheduler's next chance
  // (between two layers). Wakes the scheduler.
  void Cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Any thread: Rows() may have changed from 0 (a reader caught up). Wakes the scheduler.
  void Wake();

 private:
  friend class Scheduler;
  const JobTerms terms_;
  std::atomic<bool> cancelled_{false};
  std::atomic<class SchedulerSignal*> signal_{nullptr};  // set while a scheduler holds the job
};

}  // namespace heed

#endif  // HEED_SERVER_JOB_H_
