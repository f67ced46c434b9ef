// Runs that are compared take turns, so that a slow minute of the machine hits all alike, and its limits are
// measured in between.
#ifndef HEED_TESTS_BENCH_TURNS_H_
#define HEED_TESTS_BENCH_TURNS_H_

#include <functional>
#include <vector>

#include "tests/bench/measure.h"

namespace heed {

inline constexpr double kNoSeconds = 1e9;

struct Turn {
  std::function<void()> run;
  double seconds = kNoSeconds;  // the least of its runs
  double peak_mib = 0;          // what memory grew by in the first run, at most
};

// A run each in fresh memory, then rounds until `seconds` a turn are spent, in which each runs again until
// half a turn's seconds are over: beside a long one a short one is not measured with cold caches and fresh
// memory alone. `limits` are those of these seconds.
void TakeTurns(std::vector<Turn>& turns, LimitsNow& limits, double seconds = 1);

}  // namespace heed

#endif  // HEED_TESTS_BENCH_TURNS_H_
