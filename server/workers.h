// A few threads for what must run neither on gRPC's threads, which have all connections to serve, nor on a
// scheduler's, which has the next step to make: reading requests, tokenising, writing answers.
#ifndef HEED_SERVER_WORKERS_H_
#define HEED_SERVER_WORKERS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "server/caught.h"

namespace heed {

// Thread-safe.
class Workers {
 public:
  // `failed` is told what a task has thrown, if it is given: the thread goes on with the next one.
  explicit Workers(int threads, Failed failed = nullptr);
  ~Workers();  // when all that was given has run

  // Never blocks. Tasks start in the order given. How many may wait is bounded by those who give them (Edge).
  void Run(std::function<void()> task);

 private:
  void Loop();

  const Failed failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::vector<std::jthread> threads_;        // last: joined before the rest goes
};

}  // namespace heed

#endif  // HEED_SERVER_WORKERS_H_
