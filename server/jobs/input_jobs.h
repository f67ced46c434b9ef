// The inputs of one request on their way through a scheduler: each becomes a job, some at a time, so that a
// request of a thousand inputs neither fills the queue nor is refused for its number. A queue that is full
// refuses a request that has nothing in it, and lets one that has wait for its own.
#ifndef HEED_SERVER_JOBS_INPUT_JOBS_H_
#define HEED_SERVER_JOBS_INPUT_JOBS_H_

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/edge.h"
#include "server/job.h"
#include "server/registry.h"

namespace heed {

// Lives in shared_ptr: its jobs and its call hold it.
class InputJobs : public std::enable_shared_from_this<InputJobs> {
 public:
  InputJobs(Edge* edge, const ServedModel* model, int count);
  virtual ~InputJobs() = default;

  // Makes and submits jobs in the calling thread, the edge's intake; later ones there too, as others end.
  void Start();
  // Whoever wanted it has gone: jobs are cancelled, no more are made. Any thread, any time.
  void Cancel();

 protected:
  // The i-th input's job, which calls Ended(i) when it has. Called in order, one at a time.
  virtual absl::StatusOr<std::shared_ptr<Job>> Make(int i) = 0;
  // The i-th input has no job: it could not be made, or was not taken.
  virtual void Refused(int i, const absl::Status& status) = 0;
  // All have ended or were refused. On one of the edge's threads.
  virtual void Complete() = 0;

  void Ended(int i);

  Edge* const edge_;
  const ServedModel* const model_;
  const int count_;

 private:
  void SubmitMore();
  std::optional<int> TakeNext();
  absl::Status Submit(int i);
  bool PutBack(int i);
  bool cancelled() const;

  const int window_;   // jobs at a time
  absl::Status full_;  // how the queue refused this request; the submitting thread's

  mutable std::mutex mutex_;                // guards the rest
  std::vector<std::shared_ptr<Job>> jobs_;  // from Make() to Ended()
  int next_ = 0;
  int outstanding_ = 0;
  int ended_ = 0;
  bool submitting_ = true;  // a thread is in SubmitMore(), or is due there
  bool cancelled_ = false;
};

}  // namespace heed

#endif  // HEED_SERVER_JOBS_INPUT_JOBS_H_
