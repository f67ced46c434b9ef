// Every request is a Job: it says which rows come next and takes what comes back. A classification takes
// once, a generation until it stops; a scheduler serves both in one loop and knows neither.
#ifndef HEED_SERVER_JOB_H_
#define HEED_SERVER_JOB_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/models/model.h"
#include "server/clock.h"

namespace heed {

class Trace;
struct TraceStep;

struct Urgency {
  int priority = 0;        // higher goes first
  Time deadline = kNever;  // DEADLINE_EXCEEDED at the next chance after it
};

// What the scheduler must know before it admits a job. Fixed when the job is made.
struct JobTerms {
  Urgency urgency;
  int64_t rows = 1;    // of its first phase: a prompt, a whole document. Later it decodes, a few rows a step
  int64_t source = 0;  // how many of them are a source's
  int64_t works = 1;   // the most that it ever has in one pass, a row each where it decodes
  int64_t bytes = 0;   // the most state it ever holds (Model::StateBytes), reserved while it is admitted
  bool whole = false;  // the rows of its first phase must be in one pass (Work::more is refused)
};

// When what happened to a job; the clock's beginning until it has.
struct JobTimes {
  Time submitted{};
  Time started{};   // its first pass began
  Time prompted{};  // the last pass of its first phase ended
  Time stepped{};   // its latest pass ended
};

// What an answer cost; durations end with the last pass. The tokens are the job's to count.
struct Usage {
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  Duration queued{};   // from submission to the first pass
  Duration prefill{};  // the first phase: all of a one-shot job's computing
  Duration decode{};   // what came after it
};

// Wakes the one thread that waits. Any thread may notify; a notification between two waits is not lost.
class Wakeup {
 public:
  void Notify();
  void WaitUntil(Time time);  // kNever: until notified

 private:
  std::mutex mutex_;
  std::condition_variable notified_;
  bool pending_ = false;  // guarded by mutex_
};

// Lives from Submit() to End(). The virtuals are called by the scheduler's thread, one at a time; they must
// not block. Where Next() or Take() throws (no memory), the job is ended; what End() throws is counted.
class Job {
 public:
  explicit Job(JobTerms terms) : terms_(terms) {}
  virtual ~Job() = default;
  const JobTerms& terms() const { return terms_; }

  // Rows it could use in the next step: in its first phase what is left of it, more than a step may hold;
  // afterwards what one step needs; 0 while it is paused (its reader is slow).
  virtual int64_t Rows() const = 0;
  // Appends its next work: at least one and at most `rows` rows. In the first phase, `rows` is all that is
  // left or at least kGrid, and a chunk ends at a multiple of kGrid; all of Rows() when terms().whole and
  // after the first phase. The works refer to the job's own sequences.
  virtual void Next(int64_t rows, std::vector<Work>* batch) = 0;
  // After the pass with its work, whose results came through Work::read. True: it has finished, End(OK)
  // follows at once. An error ends it too: End() gets it.
  virtual absl::StatusOr<bool> Take() = 0;
  // The last call: with OK after Take() returned true, or with the reason why it ends early: what Take()
  // returned, DEADLINE_EXCEEDED, CANCELLED, UNAVAILABLE, INTERNAL, RESOURCE_EXHAUSTED. It gives back its
  // sequences' memory and says that it is over: quick, as an answer is built elsewhere. No pass refers to it
  // any more.
  virtual void End(const absl::Status& status) = 0;

  // Its way through the scheduler is told to the trace, as that of the call's i-th input. Before Submit().
  void TraceTo(std::shared_ptr<Trace> trace, int input);

  // May be called from any thread, any number of times, even after the end: the job ends with CANCELLED at
  // the scheduler's next chance (between two layers).
  void Cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Any thread: Rows() may have changed from 0 (a reader caught up).
  void Wake();

  // For the job itself, in Take() and End(). What it has spent: once its first phase is over.
  const JobTimes& times() const { return times_; }
  Usage Spent(int64_t input_tokens, int64_t output_tokens) const;

 protected:
  // For Take(): it has made so many tokens.
  void CountMade(int64_t tokens) { made_ += tokens; }

 private:
  friend class Scheduler;
  void WakeBy(std::shared_ptr<Wakeup> wakeup);
  void Tell(TraceStep step) const;  // to the trace, if there is one

  const JobTerms terms_;
  std::shared_ptr<Trace> trace_;  // null: its call is not traced
  int trace_input_ = 0;           // which of the call's inputs it is
  JobTimes times_;
  int64_t made_ = 0;  // tokens, since the scheduler last looked
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::shared_ptr<Wakeup> wakeup_;  // guarded by mutex_; the scheduler's, from Submit() on
};

}  // namespace heed

#endif  // HEED_SERVER_JOB_H_
