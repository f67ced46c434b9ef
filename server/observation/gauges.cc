#include "server/observation/gauges.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/base/threads.h"
#include "engine/ops/microkernel.h"
#include "server/observation/metrics.h"

namespace heed {
namespace {

using prometheus::ClientMetric;
using prometheus::Labels;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily NewFamily(std::string name, std::string help, MetricType type) {
  return {.name = std::move(name), .help = std::move(help), .type = type, .metric = {}};
}

void AddValue(MetricFamily& family, const Labels& labels, double value) {
  ClientMetric metric;
  for (const auto& [name, text] : labels) metric.label.push_back({name, text});
  metric.counter.value = metric.gauge.value = value;  // the family's type says which of them counts
  family.metric.push_back(std::move(metric));
}

MetricFamily OneValue(std::string name, std::string help, MetricType type, double value,
                      const Labels& labels = {}) {
  MetricFamily family = NewFamily(std::move(name), std::move(help), type);
  AddValue(family, labels, value);
  return family;
}

double ResidentBytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return static_cast<double>(resident) * sysconf(_SC_PAGESIZE);
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double OpenFiles() {
  std::error_code none;
  const std::filesystem::directory_iterator files("/proc/self/fd", none);
  return static_cast<double>(std::distance(begin(files), end(files)));
}

void AddProcess(std::vector<MetricFamily>& out) {
  out.push_back(
      OneValue("process_resident_memory_bytes", "Resident memory.", MetricType::Gauge, ResidentBytes()));
  out.push_back(
      OneValue("process_cpu_seconds_total", "CPU time, user and system.", MetricType::Counter, CpuSeconds()));
  out.push_back(OneValue("process_open_fds", "Open file descriptors.", MetricType::Gauge, OpenFiles()));
  out.push_back(OneValue("heed_build_info", "The program; always 1.", MetricType::Gauge, 1,
                         {{"version", HEED_VERSION}}));
  out.push_back(OneValue("heed_isa_info", "What the engine computes with; always 1.", MetricType::Gauge, 1,
                         {{"isa", MicroKernelIsa()}, {"cpus", std::to_string(AvailableCpus())}}));
}

void AddModels(const Registry& registry, std::vector<MetricFamily>& out) {
  MetricFamily running =
      NewFamily("heed_num_requests_running", "Inputs that are worked on.", MetricType::Gauge);
  MetricFamily waiting = NewFamily("heed_num_requests_waiting", "Inputs in the queue.", MetricType::Gauge);
  MetricFamily reserved =
      NewFamily("heed_state_reserved_bytes", "State reserved by running inputs.", MetricType::Gauge);
  MetricFamily limit = NewFamily("heed_state_limit_bytes", "State that may be reserved.", MetricType::Gauge);
  MetricFamily ratio =
      NewFamily("heed_kv_cache_usage_ratio", "Reserved state by its limit.", MetricType::Gauge);
  for (const Registry::Entry& entry : registry.List()) {
    if (entry.model == nullptr) continue;
    const Labels labels = LabelsOf(entry.spec, entry.model->info());
    const Scheduler& scheduler = *entry.model->scheduler;
    const double bytes = static_cast<double>(scheduler.reserved_bytes());
    const double most = static_cast<double>(entry.spec.scheduling.state_bytes);
    AddValue(running, labels, static_cast<double>(scheduler.running()));
    AddValue(waiting, labels, static_cast<double>(scheduler.queued()));
    AddValue(reserved, labels, bytes);
    AddValue(limit, labels, most);
    AddValue(ratio, labels, bytes / most);
  }
  for (MetricFamily* family : {&running, &waiting, &reserved, &limit, &ratio})
    out.push_back(std::move(*family));
}

}  // namespace

std::vector<MetricFamily> Gauges::Collect() const {
  std::vector<MetricFamily> out;
  AddProcess(out);
  out.push_back(OneValue("heed_calls_in_flight", "Calls that were begun and not yet answered.",
                         MetricType::Gauge, static_cast<double>(calls_in_flight_())));
  out.push_back(OneValue("heed_listener_up", "Whether the port takes connections.", MetricType::Gauge,
                         listener_up_() ? 1 : 0));
  AddModels(*registry_, out);
  return out;
}

}  // namespace heed
