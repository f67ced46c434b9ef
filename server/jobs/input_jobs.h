// The inputs of one request on their way through a scheduler: each becomes a job, some at a time, so that a
// request of a thousand inputs neither fills the queue nor is refused for its number. A queue that is full
// refuses a request that has nothing in it, and lets one that has wait for its own.
#ifndef HEED_SERVER_JOBS_INPUT_JOBS_H_
#define HEED_SERVER_JOBS_INPUT_JOBS_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/edge.h"
#include "server/job.h"
#include "server/jobs/answer_memory.h"
#include "server/registry.h"
#include "server/trace.h"

namespace heed {

// What a request is, whatever its inputs.
struct RequestTerms {
  Edge* edge = nullptr;  // these three outlive it
  const ServedModel* model = nullptr;
  AnswerMemory* memory = nullptr;
  int inputs = 0;
  Urgency urgency;
  std::string request_id;        // for the log
  std::shared_ptr<Trace> trace;  // null: the request is not traced
};

// Lives in shared_ptr: its jobs hold it until they end, and whoever answers.
class InputJobs : public std::enable_shared_from_this<InputJobs> {
 public:
  explicit InputJobs(const RequestTerms& terms);
  virtual ~InputJobs() = default;

  // Makes and submits jobs in the calling thread, the edge's intake; later ones there too, as others end.
  void Start();
  // Jobs are cancelled and no more are made: `why` refuses the inputs that have none. Any thread, any time;
  // the first counts.
  void Stop(const absl::Status& why);

 protected:
  // The i-th input's job, which calls Ended(i) when it has. Called in order, once for each, one at a time;
  // never after the deadline or Stop(). What it throws refuses the input.
  virtual absl::StatusOr<std::shared_ptr<Job>> Make(int i) = 0;
  // The i-th input has no job: it could not be made, or was not taken.
  virtual void Refused(int i, const absl::Status& status) = 0;
  // All have ended or were refused. In the thread of the last; must be quick.
  virtual void Complete() = 0;

  void Ended(int i);

  // For Make(): the memory of an answer. An error is the whole request's: it stops.
  absl::Status Reserve(int64_t bytes);
  absl::Status refusal() const;  // of the whole request

  const ServedModel& model() const { return *terms_.model; }
  const Urgency& urgency() const { return terms_.urgency; }
  Edge& edge() const { return *terms_.edge; }
  const std::shared_ptr<ReservedAnswer> reserved_;  // until the call has ended

 private:
  void SubmitMore();
  std::optional<int> TakeNext();
  absl::Status Submit(int i);
  absl::Status MayGoOn() const;
  absl::StatusOr<std::shared_ptr<Job>> MadeOnce(int i);
  absl::StatusOr<std::shared_ptr<Job>> Traced(int i);  // as Make(i)
  absl::Status Full() const;
  bool PutBack(int i);

  const RequestTerms terms_;
  const int window_;  // jobs at a time

  mutable std::mutex mutex_;                // guards the rest
  std::vector<std::shared_ptr<Job>> jobs_;  // from Make() to Ended()
  int next_ = 0;
  int outstanding_ = 0;
  int ended_ = 0;
  bool submitting_ = true;  // a thread is in SubmitMore(), or is due there
  absl::Status stopped_;    // why
  absl::Status refusal_;
};

}  // namespace heed

#endif  // HEED_SERVER_JOBS_INPUT_JOBS_H_
