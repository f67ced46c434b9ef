// One model's loop: admit, step, repeat. A step is one pass of one batch: the decoding jobs' next tokens, chunks of long
// prompts, whole inputs of encoders, together, as many as the token budget holds.
#ifndef HEED_SERVER_SCHEDULER_H_
#define HEED_SERVER_SCHEDULER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/threads.h"
#include "engine/models/model.h"
#include "server/clock.h"
#include "server/job.h"

namespace heed {

// The engine's threads, lent to one pass at a time for one layer: first come, first served, so models take turns.
// Thread-safe.
class Turns {
 public:
  explicit Turns(Threads* threads) : threads_(threads) {}
  // Waits for its turn, runs one layer. What the pass throws passes through.
  bool Advance(Pass& pass);

 private:
  Threads* threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ticket_ = 0, serving_ = 0;
};

struct SchedulerOptions {
  int64_t max_batch_tokens = 4096;  // rows of a step: bounds its time. A whole input may be longer: then it goes alone
  int64_t max_prefill_tokens = 512; // rows of prompts in a step while others decode: bounds their wait for a token
  int max_batch_jobs = 256;         // jobs that are admitted at a time
  int max_queued_jobs = 256;        // beyond it Submit() refuses
  int64_t state_bytes = int64_t{1} << 30;  // that admitted jobs may reserve in all
  Duration max_wait = Duration::zero();    // how long a lone job may wait for company
  Duration aging = std::chrono::seconds(5);  // a queued job gains one priority for each of these it has waited, so none starves
};

// What the scheduler counts, for metrics: called from its thread, must be quick.
struct SchedulerEvents {
  std::function<void(int64_t jobs, int64_t rows, int64_t prompt_rows)> step;      // a batch was formed
  std::function<void(Duration queued)> admitted;
  std::function<void(std::string_view reason)> refused;                           // by Submit(): "queue_full", "too_large", "stopping"
  std::function<void(std::string_view stage)> deadline_missed;                    // "queue", "prefill", "decode"
};

// Thread-safe but for the constructor's own thread: Submit, Drain and the numbers may be called from any.
class Scheduler {
 public:
  // The model, turns and clock must outlive it. Without `own_thread`, nothing runs until Step() is called: for tests.
  Scheduler(const Model* model, Turns* turns, const Clock* clock, SchedulerOptions options, SchedulerEvents events = {},
            bool own_thread = true);
  ~Scheduler();  // ends what is left with UNAVAILABLE

  // Never blocks. RESOURCE_EXHAUSTED when the queue is full, INVALID_ARGUMENT when the job could never fit,
  // UNAVAILABLE when draining; then the job was not taken: it comes back to the caller in `job`, who answers.
  absl::Status Submit(std::shared_ptr<Job>& job);

  // No new jobs; those queued and running finish. Returns when they have, or at `until`, when the rest end with UNAVAILABLE.
  void Drain(Time until);

  // One admission and one pass; false when there was nothing to do. Tests call it; the own thread loops over it.
  bool Step();

  // For metrics and the retry hint.
  int64_t queued() const;
  int64_t running() const;
  int64_t reserved_bytes() const;
  Duration expected_wait() const;  // from the speed of recent steps

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heed

#endif  // HEED_SERVER_SCHEDULER_H_
