#include "tests/bench/turns.h"

#include <algorithm>
#include <chrono>

namespace heed {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Run(Turn& turn) {
  const auto begin = Clock::now();
  turn.run();
  turn.seconds = std::min(turn.seconds, SecondsSince(begin));
}

}  // namespace

void TakeTurns(std::vector<Turn>& turns, LimitsNow& limits, double seconds) {
  limits.Reset();
  const auto start = Clock::now();
  for (int round = 0; round == 0 || SecondsSince(start) < seconds * turns.size(); ++round) {
    for (Turn& turn : turns) {
      limits.Measure();
      if (round == 0) ResetPeakMemory();
      const double before = round == 0 ? MemoryMib("VmRSS") : 0;
      const auto begin = Clock::now();
      do {
        Run(turn);
      } while (SecondsSince(begin) < seconds / 2);
      if (round == 0) turn.peak_mib = MemoryMib("VmHWM") - before;
    }
  }
  limits.Measure();
}

}  // namespace heed
