#include "server/services/metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>

#include "engine/base/status.h"
#include "engine/base/threads.h"
#include "engine/ops/microkernel.h"

namespace heed {
namespace {

using prometheus::ClientMetric;
using prometheus::Labels;
using prometheus::MetricFamily;
using prometheus::MetricType;

double Seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

// 0.5 ms, an encoder's answer, to 600 s, a long generation's.
const prometheus::Histogram::BucketBoundaries& TimeBuckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                                                                  1,      2,     5,     10,    20,   50,   100,  200, 400, 600};
  return buckets;
}

// Powers of two to 65,536.
const prometheus::Histogram::BucketBoundaries& CountBuckets() {
  static const auto buckets = [] {
    prometheus::Histogram::BucketBoundaries powers;
    for (int i = 0; i <= 16; ++i) powers.push_back(1 << i);
    return powers;
  }();
  return buckets;
}

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }  // "INVALID_ARGUMENT"

std::string_view ReasonOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument: return "validation";
    case absl::StatusCode::kResourceExhausted: return "overloaded";
    case absl::StatusCode::kDeadlineExceeded: return "deadline";
    case absl::StatusCode::kCancelled: return "cancelled";
    case absl::StatusCode::kUnavailable: return "stopping";
    case absl::StatusCode::kInternal: return "model";
    default: return "other";
  }
}

Labels ModelLabels(const ModelSpec& spec, const ModelInfo& info) {
  return {{"model_name", spec.name}, {"model_version", spec.version}, {"task", std::string(TaskOf(info))}, {"attention", info.attention}};
}

MetricFamily NewFamily(std::string name, std::string help, MetricType type) {
  return {.name = std::move(name), .help = std::move(help), .type = type, .metric = {}};
}

void AddValue(MetricFamily& family, const Labels& labels, double value) {
  ClientMetric metric;
  for (const auto& [name, text] : labels) metric.label.push_back({name, text});
  metric.counter.value = metric.gauge.value = value;  // the family's type says which of them counts
  family.metric.push_back(std::move(metric));
}

MetricFamily OneValue(std::string name, std::string help, MetricType type, double value, const Labels& labels = {}) {
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
  out.push_back(OneValue("process_resident_memory_bytes", "Resident memory.", MetricType::Gauge, ResidentBytes()));
  out.push_back(OneValue("process_cpu_seconds_total", "CPU time, user and system.", MetricType::Counter, CpuSeconds()));
  out.push_back(OneValue("process_open_fds", "Open file descriptors.", MetricType::Gauge, OpenFiles()));
  out.push_back(OneValue("heed_build_info", "The program; always 1.", MetricType::Gauge, 1, {{"version", HEED_VERSION}}));
  out.push_back(OneValue("heed_isa_info", "What the engine computes with; always 1.", MetricType::Gauge, 1,
                         {{"isa", MicroKernelIsa()}, {"cpus", std::to_string(AvailableCpus())}}));
}

}  // namespace

std::string_view TaskOf(const ModelInfo& info) {
  switch (info.head) {
    case Head::kClassification: return "classification";
    case Head::kTokenClassification: return "token_classification";
    case Head::kEmbedding: return "embedding";
    case Head::kLanguageModel: return info.architecture == Architecture::kEncoder ? "fill" : "generation";
    case Head::kNone: break;
  }
  return "none";
}

// --------------------------------------------------------------------------------------------- read when somebody asks

class Metrics::AtScrape : public prometheus::Collectable {
 public:
  void Watch(const Registry* registry, std::function<int64_t()> calls_in_flight) {
    std::lock_guard lock(mutex_);
    registry_ = registry;
    calls_in_flight_ = std::move(calls_in_flight);
  }

  std::vector<MetricFamily> Collect() const override {
    std::vector<MetricFamily> out;
    AddProcess(out);
    std::lock_guard lock(mutex_);
    if (registry_ == nullptr) return out;
    out.push_back(OneValue("heed_calls_in_flight", "Calls that were begun and not yet answered.", MetricType::Gauge,
                           static_cast<double>(calls_in_flight_())));
    AddModels(out);
    return out;
  }

 private:
  void AddModels(std::vector<MetricFamily>& out) const {
    MetricFamily running = NewFamily("heed_num_requests_running", "Inputs that are worked on.", MetricType::Gauge);
    MetricFamily waiting = NewFamily("heed_num_requests_waiting", "Inputs in the queue.", MetricType::Gauge);
    MetricFamily reserved = NewFamily("heed_state_reserved_bytes", "State reserved by running inputs.", MetricType::Gauge);
    MetricFamily limit = NewFamily("heed_state_limit_bytes", "State that may be reserved.", MetricType::Gauge);
    MetricFamily ratio = NewFamily("heed_kv_cache_usage_ratio", "Reserved state by its limit.", MetricType::Gauge);
    for (const Registry::Entry& entry : registry_->List()) {
      if (entry.model == nullptr) continue;
      const Labels labels = ModelLabels(entry.spec, entry.model->info());
      const Scheduler& scheduler = *entry.model->scheduler;
      const double bytes = static_cast<double>(scheduler.reserved_bytes()), most = static_cast<double>(entry.spec.scheduling.state_bytes);
      AddValue(running, labels, static_cast<double>(scheduler.running()));
      AddValue(waiting, labels, static_cast<double>(scheduler.queued()));
      AddValue(reserved, labels, bytes);
      AddValue(limit, labels, most);
      AddValue(ratio, labels, bytes / most);
    }
    for (MetricFamily* family : {&running, &waiting, &reserved, &limit, &ratio}) out.push_back(std::move(*family));
  }

  mutable std::mutex mutex_;
  const Registry* registry_ = nullptr;              // guarded by mutex_
  std::function<int64_t()> calls_in_flight_;        // guarded by mutex_
};

// --------------------------------------------------------------------------------------------------------- all families

prometheus::Family<prometheus::Counter>& Metrics::Counter(std::string_view name, std::string_view help) {
  return prometheus::BuildCounter().Name(std::string(name)).Help(std::string(help)).Register(*families_);
}
prometheus::Family<prometheus::Gauge>& Metrics::Gauge(std::string_view name, std::string_view help) {
  return prometheus::BuildGauge().Name(std::string(name)).Help(std::string(help)).Register(*families_);
}
prometheus::Family<prometheus::Histogram>& Metrics::Histogram(std::string_view name, std::string_view help) {
  return prometheus::BuildHistogram().Name(std::string(name)).Help(std::string(help)).Register(*families_);
}

Metrics::Metrics()
    : at_scrape_(std::make_shared<AtScrape>()),
      started_(Counter("grpc_server_started_total", "Calls that were begun.")),
      handled_(Counter("grpc_server_handled_total", "Calls that were answered, by the answer's code.")),
      success_(Counter("heed_request_success_total", "Inputs that were answered, by why the answer ended.")),
      failure_(Counter("heed_request_failure_total", "Inputs that were not answered, by why.")),
      deadline_missed_(Counter("heed_deadline_missed_total", "Inputs whose deadline passed, by how far they were.")),
      shed_(Counter("heed_requests_shed_total", "Inputs that the scheduler did not take, by why.")),
      prompt_tokens_(Counter("heed_prompt_tokens_total", "Tokens read.")),
      generation_tokens_(Counter("heed_generation_tokens_total", "Tokens made.")),
      load_seconds_(Gauge("heed_model_load_seconds", "What loading the model took.")),
      tokenization_(Histogram("heed_request_tokenization_time_seconds", "Text to tokens, one input.")),
      first_token_(Histogram("heed_time_to_first_token_seconds", "From a request's arrival to its first token.")),
      inter_token_(Histogram("heed_inter_token_latency_seconds", "From a token to the next.")),
      latency_(Histogram("heed_e2e_request_latency_seconds", "From a request's arrival to an input's answer.")),
      queue_(Histogram("heed_request_queue_time_seconds", "From submission to the first pass.")),
      prefill_(Histogram("heed_request_prefill_time_seconds", "From the first pass until the input was read.")),
      decode_(Histogram("heed_request_decode_time_seconds", "From then to the last token.")),
      batch_size_(Histogram("heed_batch_size", "Inputs that shared a pass.")),
      batch_tokens_(Histogram("heed_batch_tokens", "Rows of a pass.")) {}

void Metrics::CallStarted(std::string_view service, std::string_view method) {
  started_.Add({{"grpc_service", std::string(service)}, {"grpc_method", std::string(method)}}).Increment();
}

void Metrics::CallHandled(std::string_view service, std::string_view method, absl::StatusCode code) {
  handled_.Add({{"grpc_service", std::string(service)}, {"grpc_method", std::string(method)}, {"grpc_code", CodeName(code)}}).Increment();
}

ModelMetrics* Metrics::ForModel(const ModelSpec& spec, const ModelInfo& info) {
  std::lock_guard lock(mutex_);
  const Labels labels = ModelLabels(spec, info);
  for (const auto& model : models_) {
    if (model->labels_ == labels) return model.get();
  }
  return models_.emplace_back(new ModelMetrics(this, spec, info)).get();
}

void Metrics::Watch(const Registry* registry, std::function<int64_t()> calls_in_flight) {
  at_scrape_->Watch(registry, std::move(calls_in_flight));
}
void Metrics::StopWatching() { at_scrape_->Watch(nullptr, nullptr); }

std::vector<std::shared_ptr<prometheus::Collectable>> Metrics::collectables() const { return {families_, at_scrape_}; }

// ---------------------------------------------------------------------------------------------------------- of one model

ModelMetrics::ModelMetrics(Metrics* metrics, const ModelSpec& spec, const ModelInfo& info)
    : metrics_(metrics),
      labels_(ModelLabels(spec, info)),
      load_seconds_(&metrics->load_seconds_.Add(labels_)),
      tokenization_(&metrics->tokenization_.Add(labels_, TimeBuckets())),
      first_token_(&metrics->first_token_.Add(labels_, TimeBuckets())),
      inter_token_(&metrics->inter_token_.Add(labels_, TimeBuckets())),
      latency_(&metrics->latency_.Add(labels_, TimeBuckets())),
      queue_(&metrics->queue_.Add(labels_, TimeBuckets())),
      prefill_(&metrics->prefill_.Add(labels_, TimeBuckets())),
      decode_(&metrics->decode_.Add(labels_, TimeBuckets())),
      batch_size_(&metrics->batch_size_.Add(labels_, CountBuckets())),
      batch_tokens_(&metrics->batch_tokens_.Add(labels_, CountBuckets())),
      prompt_tokens_(&metrics->prompt_tokens_.Add(labels_)),
      generation_tokens_(&metrics->generation_tokens_.Add(labels_)) {}

Labels ModelMetrics::With(std::string_view name, std::string_view value) const {
  Labels labels = labels_;
  labels.emplace(name, value);
  return labels;
}

void ModelMetrics::Loaded(Duration time) { load_seconds_->Set(Seconds(time)); }
void ModelMetrics::Tokenized(Duration time) { tokenization_->Observe(Seconds(time)); }
void ModelMetrics::FirstToken(Duration since_arrival) { first_token_->Observe(Seconds(since_arrival)); }

void ModelMetrics::MoreTokens(int64_t tokens, Duration since_last) {
  for (int64_t i = 0; i < tokens; ++i) inter_token_->Observe(Seconds(since_last) / static_cast<double>(tokens));
}

void ModelMetrics::Succeeded(std::string_view finished_reason, Duration since_arrival) {
  metrics_->success_.Add(With("finished_reason", finished_reason)).Increment();
  latency_->Observe(Seconds(since_arrival));
}

void ModelMetrics::Failed(const absl::Status& status, Duration since_arrival) {
  Labels labels = With("code", CodeName(status.code()));
  labels.emplace("reason", ReasonOf(status.code()));
  metrics_->failure_.Add(labels).Increment();
  latency_->Observe(Seconds(since_arrival));
}

void ModelMetrics::Spent(const Usage& usage) {
  prompt_tokens_->Increment(static_cast<double>(usage.input_tokens));
  generation_tokens_->Increment(static_cast<double>(usage.output_tokens));
  queue_->Observe(Seconds(usage.queued));
  prefill_->Observe(Seconds(usage.prefill));
  if (usage.output_tokens > 0) decode_->Observe(Seconds(usage.decode));
}

void ModelMetrics::Shed(std::string_view reason) { metrics_->shed_.Add(With("reason", reason)).Increment(); }

SchedulerEvents ModelMetrics::Events() {
  SchedulerEvents events;
  events.step = [this](int64_t jobs, int64_t rows, int64_t) {
    batch_size_->Observe(static_cast<double>(jobs));
    batch_tokens_->Observe(static_cast<double>(rows));
  };
  events.refused = [this](std::string_view reason) { Shed(reason); };
  events.deadline_missed = [this](std::string_view stage) { metrics_->deadline_missed_.Add(With("stage", stage)).Increment(); };
  return events;
}

// ------------------------------------------------------------------------------------------------------------- over HTTP

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Listen(const std::string& address, const Metrics& metrics) {
  auto server = std::make_unique<MetricsServer>();
  try {  // the library throws
    server->exposer_ = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", "1", "request_timeout_ms", "5000", "max_request_size", "4096"});
  } catch (const std::exception&) {
    return Invalid("metrics_address is '", address, "', which cannot be listened on");
  }
  for (const auto& collectable : metrics.collectables()) server->exposer_->RegisterCollectable(collectable);
  return server;
}

}  // namespace heed
