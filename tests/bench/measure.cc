#include "tests/bench/measure.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "engine/base/large_blocks.h"
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

std::string Text(const char* format, auto... values) {
  char text[64];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

}  // namespace

BenchedMachine MeasureMachine(Threads& threads) {
  BenchedMachine machine{.cpu = CpuName(), .isa = MicroKernelIsa(), .threads = threads.count()};
  Threads one(1);
  machine.one = MeasureLimits(one);
  machine.all = MeasureLimits(threads);
  return machine;
}

void Print(const BenchedMachine& machine) {
  std::printf("%s, %s, %d threads, rows by %s\n", machine.cpu.c_str(), machine.isa.c_str(), machine.threads,
              std::string(RowKernelTarget()).c_str());
  std::printf("hot micro-kernel (one thread): ");
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    const int p = static_cast<int>(precision);
    std::printf("%s %s (%s), ", std::string(Name(precision)).c_str(),
                Rate(machine.all.operations[p], "OP/s").c_str(),
                Rate(machine.one.operations[p], "OP/s").c_str());
  }
  std::printf("memory read %s (%s)\n\n", Rate(machine.all.read_bytes, "B/s").c_str(),
              Rate(machine.one.read_bytes, "B/s").c_str());
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
