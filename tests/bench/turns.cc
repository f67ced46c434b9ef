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

// What a run takes in memory. Its seconds count only where that is little: memory that the system has to find
// and clear first is no part of what a server does again and again.
void RunFresh(Turn& turn) {
  constexpr double kLittleMib = 64;
  ResetPeakMemory();
  const double before = MemoryMib("VmRSS");
  Run(turn);
  turn.peak_mib = MemoryMib("VmHWM") - before;
  if (turn.peak_mib > kLittleMib) turn.seconds = kNoSeconds;
}

bool Measured(const Turn& turn, double least) { return turn.seconds > least && turn.seconds < kNoSeconds; }

}  // namespace

void TakeTurns(std::vector<Turn>& turns, LimitsNow& limits, double seconds) {
  limits.Reset();
  for (Turn& turn : turns) RunFresh(turn);
  const auto start = Clock::now();
  for (int round = 0; round == 0 || SecondsSince(start) < seconds * turns.size(); ++round) {
    for (Turn& turn : turns) {
      limits.Measure();
      if (round == 0 && Measured(turn, seconds / 2)) continue;  // a long one, that needs little memory
      const auto begin = Clock::now();
      do {
        Run(turn);
      } while (SecondsSince(begin) < seconds / 2);
    }
  }
  limits.Measure();
}

}  // namespace heed
