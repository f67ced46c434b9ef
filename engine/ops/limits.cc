#include "engine/ops/limits.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "absl/log/check.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One thread's micro-kernel and what it works on, all of it in the cache.
class HotKernel {
 public:
  HotKernel(DType a, int m)
      : kernel_(MicroKernel::Get({.a = a, .m = m, .n = 64, .k = kK, .lda = kK + 32, .ldb = 64, .ldc = 64})),
        a_(Buffer::Zeros(m * (kK + 32) * SizeOf(a))),
        b_(Buffer::Zeros(64 * kK * SizeOf(a))),
        c_(m * 64 * sizeof(float)),
        operations_(2.0 * m * 64 * kK) {}

  double OperationsPerSecond(int calls) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) kernel_->Run(a_.as<void>(), b_.as<void>(), c_.as<void>());
    return calls * operations_ / SecondsSince(start);
  }

 private:
  static constexpr int kK = 768;
  const MicroKernel* kernel_;
  Buffer a_, b_, c_;
  double operations_;
};

// The sum over the threads of each one's best.
template <typename Measure>
double OverTeam(Threads& threads, Measure measure) {
  std::vector<double> best(threads.count(), 0);
  threads.RunTeam([&](Team& team) { best[team.rank()] = measure(team); });
  double sum = 0;
  for (double x : best) sum += x;
  return sum;
}

}  // namespace

double HotOperations(Threads& threads, Precision precision, int rounds) {
  constexpr DType kInputs[] = {DType::kF32, DType::kBf16, DType::kU8};  // by Precision
  const DType input = kInputs[static_cast<int>(precision)];
  if (!HasMicroKernel(input)) return 0;
  return OverTeam(threads, [&](Team& team) {
    double best = 0;
    for (int m : {128, 160, 192}) {
      HotKernel kernel(input, m);
      for (int round = 0; round < rounds; ++round) {
        team.Barrier();
        best = std::max(best, kernel.OperationsPerSecond(20));
      }
    }
    return best;
  });
}

double ReadBytes(Threads& threads, double seconds) {
  ColdMemory memory(threads);
  double least = std::numeric_limits<double>::infinity();
  const auto begin = Clock::now();
  for (int round = 0; round < 3 || SecondsSince(begin) < seconds; ++round) {
    const auto start = Clock::now();
    memory.Read(ColdMemory::kBytes);
    least = std::min(least, SecondsSince(start));
  }
  return ColdMemory::kBytes / least;
}

MachineLimits MeasureLimits(Threads& threads, int rounds, double seconds) {
  MachineLimits limits;
  for (const Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8})
    limits.operations[static_cast<int>(precision)] = HotOperations(threads, precision, rounds);
  limits.read_bytes = ReadBytes(threads, seconds);
  return limits;
}

ColdMemory::ColdMemory(Threads& threads, int64_t bytes)
    : threads_(threads), numbers_(Buffer::Zeros(bytes / 64 * 64)) {}

void ColdMemory::Read(int64_t bytes) {
  const int64_t all = static_cast<int64_t>(numbers_.size());
  for (int64_t left = bytes; left > 0;) {
    const int64_t count = std::min(left, all - at_);
    const float* numbers = numbers_.as<float>() + at_ / 4;
    threads_.RunTeam([&](Team& team) {
      const Range share = team.Share(count / 4, 1024);
      CHECK(AllFinite(numbers + share.begin, share.size()));
    });
    left -= count;
    at_ = (at_ + count) % all;
  }
}

}  // namespace heed
