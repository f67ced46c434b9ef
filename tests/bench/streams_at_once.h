// Sequences that decode side by side: what a step of all costs, and the least that reading weights and states
// once, or the arithmetic, would take.
#ifndef HEED_TESTS_BENCH_STREAMS_AT_ONCE_H_
#define HEED_TESTS_BENCH_STREAMS_AT_ONCE_H_

#include <cstdint>
#include <string>

#include "engine/base/threads.h"
#include "engine/models/model.h"
#include "tests/bench/measure.h"

namespace heed {

// The state of a sequence that has read a prompt of so many tokens.
std::string StateAfter(const Model& model, int64_t context, Threads& threads);

struct StepCost {
  double seconds = 0;     // the least
  double read_bytes = 0;  // a second, of memory, in turns with the steps
  double share = 0;       // of the step's time, that the larger of the two limits would take
};

// `count` sequences of that state, each with memory of its own: clones would share it. `weights`: the part of
// the model's weights that a step reads.
StepCost MeasureStep(const Model& model, const std::string& state, int64_t context, int count,
                     ColdMemory& memory, LimitsNow& limits, Threads& threads, double weights = 1);

}  // namespace heed

#endif  // HEED_TESTS_BENCH_STREAMS_AT_ONCE_H_
