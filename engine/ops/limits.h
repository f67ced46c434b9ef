// What this machine gives at most: the speed of the micro-kernel on numbers in the cache, and of reading
// memory. What a model can do at most follows from them; benchmarks stand beside them.
#ifndef HEED_ENGINE_OPS_LIMITS_H_
#define HEED_ENGINE_OPS_LIMITS_H_

#include <cstdint>

#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/ops/gemm.h"

namespace heed {

// Of some threads together.
struct MachineLimits {
  double operations[3] = {};  // a second, by Precision; 0 where this CPU has no kernels
  double read_bytes = 0;      // a second
};

// Measures for about a second; rounds and seconds as below.
MachineLimits MeasureLimits(Threads& threads, int rounds = 40, double seconds = 0.5);

// A second, of the hot micro-kernel on all threads: the sum of each one's best.
double HotOperations(Threads& threads, Precision precision, int rounds = 40);
// A second, of what the threads read together in the best of the rounds that begin within `seconds`.
double ReadBytes(Threads& threads, double seconds = 0.5);

// Reads what is in no cache, as fast as the threads can together: the limit of what memory binds. Its speed
// wanders with the machine's other tenants, so it takes turns with what it is the limit of.
class ColdMemory {
 public:
  static constexpr int64_t kBytes = 256 << 20;  // far more than any cache holds
  // With fewer bytes: the limit of what reads so much again and again, and may find it in a cache.
  explicit ColdMemory(Threads& threads, int64_t bytes = kBytes);
  void Read(int64_t bytes);  // the next ones, around and around

 private:
  Threads& threads_;
  Buffer numbers_;
  int64_t at_ = 0;
};

}  // namespace heed

#endif  // HEED_ENGINE_OPS_LIMITS_H_
