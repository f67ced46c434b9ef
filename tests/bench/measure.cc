#include "tests/bench/measure.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "engine/base/large_blocks.h"
#include "engine/base/memory.h"
#include "engine/base/status.h"
#include "engine/ops/microkernel.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
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

// A second, of what the threads read together in their best round.
double ReadBytes(Threads& threads) {
  ColdMemory memory(threads);
  return ColdMemory::kBytes / LeastSeconds({[&] { memory.Read(ColdMemory::kBytes); }}, 0.5)[0];
}

std::string Text(const char* format, auto... values) {
  char text[64];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
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

ColdMemory::ColdMemory(Threads& threads, int64_t bytes)
    : threads_(threads), numbers_(Buffer::Zeros(bytes / 64 * 64)) {}

void ColdMemory::Read(int64_t bytes) {
  const int64_t all = static_cast<int64_t>(numbers_.size());
  for (int64_t left = bytes; left > 0;) {
    const int64_t count = std::min(left, all - at_);
    const float* numbers = numbers_.as<float>() + at_ / 4;
    threads_.RunTeam([&](Team& team) {
      const Range share = team.Share(count / 4, 1024);
      if (!AllFinite(numbers + share.begin, share.size())) std::abort();
    });
    left -= count;
    at_ = (at_ + count) % all;
  }
}

Limits MeasureLimits(Threads& threads) {
  Limits limits{.cpu = CpuName(), .isa = MicroKernelIsa(), .threads = threads.count()};
  Threads one(1);
  for (int p = 0; p < 3; ++p) {
    limits.operations_of_one[p] = HotOperations(one, static_cast<Precision>(p));
    limits.operations[p] = HotOperations(threads, static_cast<Precision>(p));
  }
  limits.read_bytes_of_one = ReadBytes(one);
  limits.read_bytes = ReadBytes(threads);
  return limits;
}

void Print(const Limits& limits) {
  std::printf("%s, %s, %d threads, rows by %s\n", limits.cpu.c_str(), limits.isa.c_str(), limits.threads,
              std::string(RowKernelTarget()).c_str());
  std::printf("hot micro-kernel (one thread): ");
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    const int p = static_cast<int>(precision);
    std::printf("%s %s (%s), ", std::string(Name(precision)).c_str(),
                Rate(limits.operations[p], "OP/s").c_str(),
                Rate(limits.operations_of_one[p], "OP/s").c_str());
  }
  std::printf("memory read %s (%s)\n\n", Rate(limits.read_bytes, "B/s").c_str(),
              Rate(limits.read_bytes_of_one, "B/s").c_str());
}

void LimitsNow::Measure() {
  constexpr int64_t kRead = 64 << 20;
  operations_ = std::max(operations_, HotOperations(threads_, precision_, /*rounds=*/4));
  const auto start = Clock::now();
  memory_.Read(kRead);
  bytes_ = std::max(bytes_, kRead / SecondsSince(start));
}

double LimitsNow::LeastTime(double operations, double bytes) const {
  return std::max(operations / operations_, bytes / bytes_);
}

std::vector<double> LeastSeconds(const std::vector<std::function<void()>>& functions, double seconds,
                                 int rounds) {
  std::vector<double> least(functions.size(), 1e9);
  const auto start = Clock::now();
  for (int round = 0; round < rounds || SecondsSince(start) < seconds * functions.size(); ++round) {
    for (size_t i = 0; i < functions.size(); ++i) {
      const auto begin = Clock::now();
      functions[i]();
      least[i] = std::min(least[i], SecondsSince(begin));
    }
  }
  return least;
}

double MemoryMib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stod(line.substr(field.size() + 1)) / 1024;
  }
  return 0;
}

void ResetPeakMemory() {
  LargeBlocks::Clear();
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

bool Wanted(const char* variable, const std::string& name) {
  const char* wanted = std::getenv(variable);
  return wanted == nullptr || Cat(",", wanted, ",").find(Cat(",", name, ",")) != std::string::npos;
}

Table::Table(std::vector<std::string> columns) {
  for (const std::string& column : columns) widths_.push_back(std::max<size_t>(column.size(), 11));
  Row(columns);
}

void Table::Row(const std::vector<std::string>& cells) {
  for (size_t i = 0; i < cells.size(); ++i)
    std::printf("%*s  ", static_cast<int>(widths_[i]), cells[i].c_str());
  std::printf("\n");
  std::fflush(stdout);
}

std::string Milliseconds(double seconds) { return Text("%.3f ms", seconds * 1e3); }
std::string Percent(double share) { return Text("%.0f %%", share * 100); }
std::string Times(double factor) { return Text("%.2f x", factor); }

std::string Rate(double per_second, const std::string& unit) {
  const char* prefix = per_second >= 1e12 ? "T" : per_second >= 1e9 ? "G" : "M";
  const double scaled = per_second / (per_second >= 1e12 ? 1e12 : per_second >= 1e9 ? 1e9 : 1e6);
  return Text(scaled < 10 ? "%.2f " : scaled < 100 ? "%.1f " : "%.0f ", scaled) + prefix + unit;
}

}  // namespace heed
