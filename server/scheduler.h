// One model's loop: admit, step, repeat. A step is one pass of one batch: the decoding jobs' next tokens,
// chunks of long prompts, whole inputs of encoders, together, as many as the token budget holds.
//
// Who goes first. The queue is in order of priority, then of deadline, then of arrival. For every `aging`
// that a job has waited it counts one priority higher, so it is passed only by jobs that arrive within (their
// priority - its own + 1) * aging after it: nobody starves. A job whose bytes do not fit holds back all
// behind it.
//
// Who shares a step.
//   Decoding jobs come first, all their rows or none; those that were left out of the last step before the
//   others. At least 2 * kGrid rows are for prompts, and at most max_prefill_tokens while others decode. One
//   prompt is cut at a time: it gets at least half of those rows, and inputs that fit whole into the other
//   half pass it. When none is being cut, the first of the queue is taken in any case: cut, or where it must
//   be whole, as it is.
//
// Who leaves. Cancellation and deadlines are looked at before every step and between any two layers: nothing
// more is computed for a job that has to go, and its bytes are free in the same step. A pass that throws ends
// the jobs of its batch, no others.
#ifndef HEED_SERVER_SCHEDULER_H_
#define HEED_SERVER_SCHEDULER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/models/model.h"
#include "server/caught.h"
#include "server/clock.h"
#include "server/job.h"
#include "server/turns.h"

namespace heed {

struct SchedulerOptions {
  // Rows of a step: bounds its time. A longer input that must go whole goes beside decoding rows only.
  int64_t max_batch_tokens = 4096;
  // Rows of prompts in a step while others decode: bounds their wait for a token.
  int64_t max_prefill_tokens = 512;
  int max_batch_jobs = 256;   // admitted at a time
  int max_queued_jobs = 256;  // beyond it Submit() refuses
  // That admitted jobs may reserve in all, with the workspace of the pass that one enters.
  int64_t state_bytes = int64_t{1} << 30;
  Duration max_wait = Duration::zero();           // for company, of a job that finds nobody running
  Duration aging = std::chrono::seconds(5);       // of waiting make up for one priority
  Duration max_pause = std::chrono::seconds(30);  // of a job; then it is cancelled: its reader has stalled
};

// What the scheduler counts while it happens, for metrics. Called from its thread; must be quick.
struct SchedulerEvents {
  std::function<void(int64_t jobs, int64_t rows, int64_t prompt_rows)> step;  // a batch was formed
  std::function<void(Duration queued)> admitted;
  std::function<void(int64_t rows)> read;  // of prompts, in a pass that is over; whoever left it not counted
  // A job made tokens in a step: its first, so long after its submission, or more, so long after those
  // before. Several at once are those of its samples.
  std::function<void(int64_t tokens, Duration since, bool first)> made;
  std::function<void(std::string_view stage)> deadline_missed;  // "queue", "prefill", "decode"
  Failed failed;                                                // a pass, or a job's step, has thrown
};

// Submit(), Drain() and the numbers may be called from any thread.
class Scheduler {
 public:
  // The model, turns and clock must outlive it. Without `own_thread`, nothing runs until Step() is called:
  // for tests. max_prefill_tokens is at least 2 * kGrid, max_batch_tokens at least 4 * kGrid.
  Scheduler(const Model* model, Turns* turns, const Clock* clock, SchedulerOptions options,
            SchedulerEvents events = {}, bool own_thread = true);
  ~Scheduler();  // ends what is left with UNAVAILABLE
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Never blocks. RESOURCE_EXHAUSTED when the queue is full (expected_wait() is the hint), INVALID_ARGUMENT
  // when the job could never fit, UNAVAILABLE when draining: then the job was not taken, End() is not called,
  // the caller answers.
  absl::Status Submit(std::shared_ptr<Job> job);
  // Submit() would now refuse any job for it: to be asked before the work of making one.
  bool full() const { return queued_ >= options_.max_queued_jobs; }

  // No new jobs; those queued and running finish, and what is left at `until` ends with UNAVAILABLE. Returns
  // when none is left (without an own thread at once: Step() does it). A second call may shorten the time of
  // the first.
  void Drain(Time until);

  // One admission and one pass; false when there was nothing to do. The own thread's loop, and tests.
  bool Step();

  // For metrics and the retry hint.
  int64_t queued() const { return queued_; }
  int64_t running() const { return running_count_; }
  int64_t reserved_bytes() const { return reserved_; }
  int64_t workspace_bytes() const { return workspace_; }  // of the pass under way; beside those reserved
  Duration expected_wait() const;  // of a job that joins the queue now, from the speed of recent steps

 private:
  struct Entry;  // a job from Submit() to its end
  struct Batch;  // a step's jobs and their works
  using Entries = std::vector<std::unique_ptr<Entry>>;

  absl::Status MayEnter(const JobTerms& terms) const;  // mutex_ is held
  // Of a pass; `works`: as PassSize has them.
  int64_t WorkspaceBytes(int64_t rows, int64_t source, int64_t works) const;
  int64_t WorkspaceBytes(const JobTerms& terms) const;  // of the longest pass with one job alone

  // All below is for the scheduler's thread.
  void Loop();
  bool Idle() const;                // drained, and nothing left
  Time NextChance(Time now) const;  // when something may have to be done though nobody notifies

  void Receive();        // what was submitted enters the queue
  void Sweep(Time now);  // ends those that have to go, and marks those of the batch at hand
  absl::Status Verdict(const Entry& entry, Time now) const;  // OK: it may stay
  void End(Entry& entry, const absl::Status& status);
  void Forget();  // those that have ended

  absl::Status Try(absl::FunctionRef<absl::Status()> body) const;  // what it throws is told, and the status

  bool AwaitsCompany(Time now) const;
  void Form(Time now, Batch* batch);
  void AddDecoding(Time now, Batch* batch);
  void AddFromQueue(Time now, int64_t left, bool cutting, Batch* batch);
  bool HasRoom(const JobTerms& terms, int64_t rows, const Batch& batch) const;
  void Admit(Time now, Entry& entry, Batch* batch);
  void AddPrompts(int64_t left, Batch* batch);
  int64_t Add(Entry& entry, int64_t rows, Batch* batch);  // rows that were added

  void Run(Batch* batch);
  static bool DropCondemned(Pass& pass, Batch* batch);  // false: nobody is left
  void Settle(Batch* batch);
  static void TracePass(const Entry& entry, const Batch& batch, Time end, bool failed);
  void CountRead(const Batch& batch) const;
  void CountMade(Entry& entry, Time now) const;
  void Measure(Duration step, int64_t admitted);

  const Model* const model_;
  Turns* const turns_;
  const Clock* const clock_;
  const SchedulerOptions options_;
  const SchedulerEvents events_;
  const bool own_thread_;
  const std::shared_ptr<Wakeup> wakeup_ = std::make_shared<Wakeup>();  // jobs may outlive the scheduler

  std::mutex mutex_;              // guards the four below
  std::condition_variable idle_;  // Idle() has become true
  Entries inbox_;                 // submitted, not yet in the queue
  uint64_t submitted_ = 0;
  Time drain_until_ = kNever;

  // The scheduler's thread only.
  Entries queue_;
  Entries running_;      // admitted; those that the last step left out come first
  Time until_ = kNever;  // drain_until_ as last seen
  Turns::Seat seat_;
  uint64_t ended_ = 0;
  double busy_seconds_ = 0;       // of recent steps, fading
  double recent_admissions_ = 0;  // in them

  std::atomic<bool> draining_{false};
  std::atomic<int64_t> queued_{0};  // inbox_ and queue_
  std::atomic<int64_t> running_count_{0};
  std::atomic<int64_t> reserved_{0};
  std::atomic<int64_t> workspace_{0};
  std::atomic<double> seconds_per_admission_{0};

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace heed

#endif  // HEED_SERVER_SCHEDULER_H_
