#include "server/observation/gauges.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include "engine/base/free_memory.h"
#include "engine/base/threads.h"
#include "engine/ops/microkernel.h"
#include "server/observation/log.h"
#include "server/observation/model_metrics.h"

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

// The numbers of /proc/self/stat by their fields' numbers. The second field, a name, may hold anything.
std::vector<double> ProcessStat() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string state;
  fields >> state;
  std::vector<double> numbers(4);  // before the fourth field there are none; proc_pid_stat(5) counts from 1
  for (double number; fields >> number;) numbers.push_back(number);
  numbers.resize(53);
  return numbers;
}

// When the machine began, in seconds since 1970.
double BootTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  while (file >> word && word != "btime") file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  double time = 0;
  file >> time;
  return time;
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

double Limit(int resource) {
  rlimit limit{};
  getrlimit(resource, &limit);
  return static_cast<double>(limit.rlim_cur);  // 2^64 - 1: none
}

// As Prometheus's own client libraries name them.
void AddProcess(std::vector<MetricFamily>& out) {
  const std::vector<double> stat = ProcessStat();
  auto add = [&](const char* name, const char* help, double value) {
    out.push_back(OneValue(name, help, MetricType::Gauge, value));
  };
  out.push_back(
      OneValue("process_cpu_seconds_total", "CPU time, user and system.", MetricType::Counter, CpuSeconds()));
  add("process_open_fds", "Open file descriptors.", OpenFiles());
  add("process_max_fds", "File descriptors that may be open.", Limit(RLIMIT_NOFILE));
  add("process_virtual_memory_bytes", "Virtual memory.", stat[23]);
  add("process_virtual_memory_max_bytes", "Virtual memory that there may be.", Limit(RLIMIT_AS));
  add("process_resident_memory_bytes", "Resident memory.", stat[24] * sysconf(_SC_PAGESIZE));
  add("process_start_time_seconds", "When the process started, in seconds since 1970.",
      BootTime() + stat[22] / sysconf(_SC_CLK_TCK));
  add("process_threads", "Threads.", stat[20]);
}

void AddSources(const GaugeSources& sources, std::vector<MetricFamily>& out) {
  auto add = [&](const char* name, const char* help, const auto& source) {
    if (source) out.push_back(OneValue(name, help, MetricType::Gauge, static_cast<double>(source())));
  };
  add("heed_calls_in_flight", "Calls that were begun and not yet answered.", sources.calls_in_flight);
  add("heed_listener_up", "Whether the port takes connections.", sources.listener_up);
  add("heed_answer_bytes_reserved", "Memory reserved by answers that are not yet written.",
      sources.answer_bytes_reserved);
  add("heed_answer_limit_bytes", "Memory that answers may reserve.", sources.answer_bytes_limit);
  add("heed_tls_certificate_expiry_timestamp_seconds",
      "When the port's certificate expires, or one sent with it does before, in seconds since 1970; none "
      "without TLS.",
      sources.certificate_expiry);
}

void AddSpans(const SpanCounts& counts, std::vector<MetricFamily>& out) {
  MetricFamily spans =
      NewFamily("heed_trace_spans_total",
                "Spans of traced calls that a collector has taken, or not, or that nobody could send.",
                MetricType::Counter);
  AddValue(spans, {{"outcome", "exported"}}, static_cast<double>(counts.exported));
  AddValue(spans, {{"outcome", "failed"}}, static_cast<double>(counts.failed));
  AddValue(spans, {{"outcome", "dropped"}}, static_cast<double>(counts.dropped));
  out.push_back(std::move(spans));
}

void AddServer(std::vector<MetricFamily>& out) {
  out.push_back(OneValue("heed_build_info", "The program; always 1.", MetricType::Gauge, 1,
                         {{"version", HEED_VERSION}}));
  out.push_back(OneValue("heed_isa_info", "What the engine computes with; always 1.", MetricType::Gauge, 1,
                         {{"isa", MicroKernelIsa()}, {"cpus", std::to_string(AvailableCpus())}}));
  out.push_back(OneValue("heed_memory_available_bytes",
                         "Memory that the machine, and this process's control groups, have left.",
                         MetricType::Gauge, static_cast<double>(FreeMemory())));
  out.push_back(OneValue("heed_log_lines_dropped_total",
                         "Lines of the log that nobody could take, or that were too many of a kind.",
                         MetricType::Counter, static_cast<double>(LogLinesDropped())));
}

void AddStates(const std::vector<Registry::Entry>& models, std::vector<MetricFamily>& out) {
  constexpr std::pair<ModelState, const char*> kStates[] = {
      {ModelState::kLoading, "loading"}, {ModelState::kReady, "ready"}, {ModelState::kFailed, "failed"}};
  MetricFamily states =
      NewFamily("heed_model_state", "1 for the state that the model is in.", MetricType::Gauge);
  for (const Registry::Entry& entry : models) {
    for (const auto& [state, name] : kStates) {
      AddValue(states,
               {{"model_name", entry.spec.name}, {"model_version", entry.spec.version}, {"state", name}},
               entry.state == state);
    }
  }
  out.push_back(std::move(states));
}

void AddMemory(const std::vector<Registry::Entry>& models, std::vector<MetricFamily>& out) {
  MetricFamily running =
      NewFamily("heed_num_requests_running", "Inputs that are worked on.", MetricType::Gauge);
  MetricFamily waiting = NewFamily("heed_num_requests_waiting", "Inputs in the queue.", MetricType::Gauge);
  MetricFamily reserved =
      NewFamily("heed_state_reserved_bytes", "State reserved by running inputs.", MetricType::Gauge);
  MetricFamily workspace =
      NewFamily("heed_workspace_bytes", "Workspace of the pass under way.", MetricType::Gauge);
  MetricFamily limit =
      NewFamily("heed_state_limit_bytes", "State and workspace that there may be.", MetricType::Gauge);
  MetricFamily ratio =
      NewFamily("heed_kv_cache_usage_ratio", "Reserved state by its limit.", MetricType::Gauge);
  for (const Registry::Entry& entry : models) {
    if (entry.model == nullptr) continue;
    const Labels labels = LabelsOf(entry.spec, entry.model->info());
    const Scheduler& scheduler = *entry.model->scheduler;
    const double bytes = static_cast<double>(scheduler.reserved_bytes());
    const double most = static_cast<double>(entry.spec.scheduling.state_bytes);
    AddValue(running, labels, static_cast<double>(scheduler.running()));
    AddValue(waiting, labels, static_cast<double>(scheduler.queued()));
    AddValue(reserved, labels, bytes);
    AddValue(workspace, labels, static_cast<double>(scheduler.workspace_bytes()));
    AddValue(limit, labels, most);
    AddValue(ratio, labels, bytes / most);
  }
  for (MetricFamily* family : {&running, &waiting, &reserved, &workspace, &limit, &ratio})
    out.push_back(std::move(*family));
}

}  // namespace

std::vector<MetricFamily> Gauges::Collect() const {
  std::vector<MetricFamily> out;
  const std::vector<Registry::Entry> models = registry_->List();
  AddProcess(out);
  AddServer(out);
  AddSources(sources_, out);
  if (sources_.spans) AddSpans(sources_.spans(), out);
  AddStates(models, out);
  AddMemory(models, out);
  return out;
}

}  // namespace heed
