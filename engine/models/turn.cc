#include "engine/models/turn.h"

namespace heed {

bool RunSome(Threads& threads, Turn& turn, int64_t tasks, absl::FunctionRef<double(int64_t i)> cost,
             absl::FunctionRef<void(int64_t i, int thread)> task) {
  int64_t end = turn.done;
  for (; end < tasks && (turn.room > 0 || (end - turn.done) % threads.count() != 0); ++end)
    turn.room -= cost(end);
  threads.RunTasks(end - turn.done, [&](int64_t i, int thread) { task(turn.done + i, thread); });
  turn.done = end < tasks ? end : 0;
  return end == tasks;
}

}  // namespace heed
