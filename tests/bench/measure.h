// What every benchmark needs: this machine's limits, measured in the same run, a stopwatch that is hard to
// fool, and a table. A figure without its limit beside it says nothing.
#ifndef HEED_TESTS_BENCH_MEASURE_H_
#define HEED_TESTS_BENCH_MEASURE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/threads.h"
#include "engine/ops/gemm.h"
#include "engine/ops/limits.h"

namespace heed {

// Known once, to know the machine by: its limits on all threads, and on one.
struct BenchedMachine {
  std::string cpu;  // "AMD EPYC 9B45"
  std::string isa;  // of the micro-kernels
  int threads = 1;
  MachineLimits all, one;
};

// Measures for a second or two.
BenchedMachine MeasureMachine(Threads& threads);
void Print(const BenchedMachine& machine);

// The least time of one call of each function: they take turns, so that a slow minute of the machine hits all
// alike. At least so many rounds, and rounds until `seconds` a function are spent.
std::vector<double> LeastSeconds(const std::vector<std::function<void()>>& functions, double seconds = 0.2,
                                 int rounds = 3);

// Of /proc/self/status, in MiB: "VmRSS" now, "VmHWM" the most since ResetPeakMemory().
double MemoryMib(const std::string& field);
void ResetPeakMemory();  // and gives back what is held and not used

// This machine's limits in the very seconds of what they are the limits of: the hot speed changes by the
// second, the memory's with other tenants. Measure() between runs; the best since Reset() counts.
class LimitsNow {
 public:
  LimitsNow(Threads& threads, Precision precision)
      : threads_(threads), precision_(precision), memory_(threads) {}
  void Reset() { operations_ = bytes_ = 0; }
  void Measure();  // takes some 20 ms
  double operations() const { return operations_; }
  double bytes() const { return bytes_; }
  // In which so many operations and bytes can be done, the ones beside the others.
  double LeastTime(double operations, double bytes) const;

 private:
  Threads& threads_;
  Precision precision_;
  ColdMemory memory_;
  double operations_ = 0, bytes_ = 0;  // a second
};

// Whether the environment's `variable`, names joined by commas, has this one. Where it is not set: yes.
bool Wanted(const char* variable, const std::string& name);

// Prints rows under a headline, columns aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> columns);
  void Row(const std::vector<std::string>& cells);

 private:
  std::vector<size_t> widths_;
};

std::string Milliseconds(double seconds);  // "1.234 ms"
std::string Percent(double share);         // "85 %"
std::string Times(double factor);          // "1.25 x"
// A rate in the unit of its size: Rate(2.5e11, "FLOP/s") is "250 GFLOP/s".
std::string Rate(double per_second, const std::string& unit);

}  // namespace heed

#endif  // HEED_TESTS_BENCH_MEASURE_H_
