// Runs that are compared take turns, so that a slow minute of the machine hits all alike, and its limits are
// measured in between.
#ifndef HEED_TESTS_BENCH_TURNS_H_
#define HEED_TESTS_BENCH_TURNS_H_

#include <functional>
#include <vector>

#include "tests/bench/measure.h"

namespace heed {

struct Turn {
  std::function<void()> run;
  double seconds = 1e9;  // the least of all its runs
  double peak_mib = 0;   // what memory grew by in the first round, at most
};

// Rounds until `seconds` a turn are spent, one at least, in which each runs again until half a turn's seconds
// are over: beside a long one a short one is not measured with cold caches and fresh memory alone. `limits`
// are those of these seconds.
void TakeTurns(std::vector<Turn>& turns, LimitsNow& limits, double seconds = 1);

}  // namespace heed

#endif  // HEED_TESTS_BENCH_TURNS_H_
