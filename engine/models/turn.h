// Turns: work that is done a part at a time, so that other models wait for a part, not for a whole document.
#ifndef HEED_ENGINE_MODELS_TURN_H_
#define HEED_ENGINE_MODELS_TURN_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "engine/base/threads.h"

namespace heed {

// Multiply-adds of each thread in one turn: some 25 ms of a core in bf16. A turn ends with the tasks that use
// it up: no task costs more than this, so it is twice as long at most.
inline constexpr double kTurn = 2e9;

struct Turn {
  double room = 0;   // multiply-adds that are still to be done now, by all threads together
  int64_t done = 0;  // tasks, of the work at hand; 0 again when it is done
};

// Runs as many of the tasks as there is room for, all threads with as many; true when the last one is done.
bool RunSome(Threads& threads, Turn& turn, int64_t tasks, absl::FunctionRef<double(int64_t i)> cost,
             absl::FunctionRef<void(int64_t i, int thread)> task);

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_TURN_H_
