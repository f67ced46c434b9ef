// What the server counts, for Prometheus. Names follow vLLM's stems under `heed_`, units are seconds and bytes. Labels come
// from the loaded models and from our own words only, so their number is bounded.
#ifndef HEED_SERVER_SERVICES_METRICS_H_
#define HEED_SERVER_SERVICES_METRICS_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/exposer.h"
#include "prometheus/family.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/clock.h"
#include "server/job.h"
#include "server/registry.h"

namespace heed {

class Metrics;

// One model's. Thread-safe; lives as long as its Metrics.
class ModelMetrics {
 public:
  void Loaded(Duration time);
  void Tokenized(Duration time);
  void FirstToken(Duration since_arrival);
  void MoreTokens(int64_t tokens, Duration since_last);  // several at once count as evenly spread
  // An input was answered ("complete", "stop" or "length"), or not.
  void Succeeded(std::string_view finished_reason, Duration since_arrival);
  void Failed(const absl::Status& status, Duration since_arrival);
  void Spent(const Usage& usage);
  void Shed(std::string_view reason);
  SchedulerEvents Events();  // what the model's scheduler counts

 private:
  friend class Metrics;
  ModelMetrics(Metrics* metrics, const ModelSpec& spec, const ModelInfo& info);
  prometheus::Labels With(std::string_view name, std::string_view value) const;

  Metrics* metrics_;
  prometheus::Labels labels_;  // model_name, model_version, task, attention
  prometheus::Gauge *load_seconds_;
  prometheus::Histogram *tokenization_, *first_token_, *inter_token_, *latency_, *queue_, *prefill_, *decode_;
  prometheus::Histogram *batch_size_, *batch_tokens_;
  prometheus::Counter *prompt_tokens_, *generation_tokens_;
};

// All of a server's. Thread-safe.
class Metrics {
 public:
  Metrics();

  void CallStarted(std::string_view service, std::string_view method);
  void CallHandled(std::string_view service, std::string_view method, absl::StatusCode code);

  // The same object for the same spec.
  ModelMetrics* ForModel(const ModelSpec& spec, const ModelInfo& info);

  // Numbers that are read at each scrape: calls in flight, each model's running, waiting and reserved. The registry must
  // live until StopWatching().
  void Watch(const Registry* registry, std::function<int64_t()> calls_in_flight);
  void StopWatching();

  // All of it is exposed by these.
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables() const;

 private:
  friend class ModelMetrics;
  class AtScrape;
  prometheus::Family<prometheus::Counter>& Counter(std::string_view name, std::string_view help);
  prometheus::Family<prometheus::Gauge>& Gauge(std::string_view name, std::string_view help);
  prometheus::Family<prometheus::Histogram>& Histogram(std::string_view name, std::string_view help);

  std::shared_ptr<prometheus::Registry> families_ = std::make_shared<prometheus::Registry>();
  std::shared_ptr<AtScrape> at_scrape_;
  prometheus::Family<prometheus::Counter> &started_, &handled_, &success_, &failure_, &deadline_missed_, &shed_;
  prometheus::Family<prometheus::Counter> &prompt_tokens_, &generation_tokens_;
  prometheus::Family<prometheus::Gauge>& load_seconds_;
  prometheus::Family<prometheus::Histogram> &tokenization_, &first_token_, &inter_token_, &latency_, &queue_, &prefill_, &decode_;
  prometheus::Family<prometheus::Histogram> &batch_size_, &batch_tokens_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ModelMetrics>> models_;  // guarded by mutex_
};

// "classification", "generation", ...: what a model is for, as the label `task`.
std::string_view TaskOf(const ModelInfo& info);

// GET /metrics over HTTP on a thread of its own. INVALID_ARGUMENT if the address cannot be had.
class MetricsServer {
 public:
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Listen(const std::string& address, const Metrics& metrics);
  int port() const { return exposer_->GetListeningPorts().front(); }

 private:
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace heed

#endif  // HEED_SERVER_SERVICES_METRICS_H_
