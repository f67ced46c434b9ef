// What the server counts, for Prometheus. Names follow vLLM's stems under `heed_`, units are seconds and
// bytes. Labels come from the loaded models and from our own words only, so their number is bounded.
#ifndef HEED_SERVER_OBSERVATION_METRICS_H_
#define HEED_SERVER_OBSERVATION_METRICS_H_

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/clock.h"
#include "server/edge.h"
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
  prometheus::Gauge* load_seconds_;
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

  EdgeEvents Events();  // what the edge counts

  // The same object for the same spec.
  ModelMetrics* ForModel(const ModelSpec& spec, const ModelInfo& info);

  std::shared_ptr<prometheus::Collectable> families() const { return families_; }

 private:
  friend class ModelMetrics;
  using CounterFamily = prometheus::Family<prometheus::Counter>;
  using GaugeFamily = prometheus::Family<prometheus::Gauge>;
  using HistogramFamily = prometheus::Family<prometheus::Histogram>;
  CounterFamily& Counter(std::string_view name, std::string_view help);
  GaugeFamily& Gauge(std::string_view name, std::string_view help);
  HistogramFamily& Histogram(std::string_view name, std::string_view help);

  std::shared_ptr<prometheus::Registry> families_ = std::make_shared<prometheus::Registry>();
  CounterFamily& started_;
  CounterFamily& handled_;
  CounterFamily& success_;
  CounterFamily& failure_;
  CounterFamily& deadline_missed_;
  CounterFamily& shed_;
  CounterFamily& prompt_tokens_;
  CounterFamily& generation_tokens_;
  GaugeFamily& load_seconds_;
  HistogramFamily& tokenization_;
  HistogramFamily& first_token_;
  HistogramFamily& inter_token_;
  HistogramFamily& latency_;
  HistogramFamily& queue_;
  HistogramFamily& prefill_;
  HistogramFamily& decode_;
  HistogramFamily& batch_size_;
  HistogramFamily& batch_tokens_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ModelMetrics>> models_;  // guarded by mutex_
};

// "classification", "generation", ...: what a model is for, as the label `task`.
std::string_view TaskOf(const ModelInfo& info);
// model_name, model_version, task, attention: on every family of a model.
prometheus::Labels LabelsOf(const ModelSpec& spec, const ModelInfo& info);

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_METRICS_H_
