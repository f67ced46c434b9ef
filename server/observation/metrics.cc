#include "server/observation/metrics.h"

#include <chrono>

#include "server/observation/log.h"

namespace heed {
namespace {

using prometheus::Labels;

// 0.5 ms, an encoder's answer, to 600 s, a long generation's.
const prometheus::Histogram::BucketBoundaries& TimeBuckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 400, 600};
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
    case absl::StatusCode::kInvalidArgument:
      return "validation";
    case absl::StatusCode::kResourceExhausted:
      return "overloaded";
    case absl::StatusCode::kDeadlineExceeded:
      return "deadline";
    case absl::StatusCode::kCancelled:
      return "cancelled";
    case absl::StatusCode::kUnavailable:
      return "stopping";
    case absl::StatusCode::kInternal:
      return "model";
    default:
      return "other";
  }
}

}  // namespace

std::string_view TaskOf(const ModelInfo& info) {
  switch (info.head) {
    case Head::kClassification:
      return "classification";
    case Head::kTokenClassification:
      return "token_classification";
    case Head::kEmbedding:
      return "embedding";
    case Head::kLanguageModel:
      return info.architecture == Architecture::kEncoder ? "fill" : "generation";
    case Head::kNone:
      break;
  }
  return "none";
}

prometheus::Labels LabelsOf(const ModelSpec& spec, const ModelInfo& info) {
  return {{"model_name", spec.name},
          {"model_version", spec.version},
          {"task", std::string(TaskOf(info))},
          {"attention", info.attention}};
}

Metrics::CounterFamily& Metrics::Counter(std::string_view name, std::string_view help) {
  return prometheus::BuildCounter().Name(std::string(name)).Help(std::string(help)).Register(*families_);
}
Metrics::GaugeFamily& Metrics::Gauge(std::string_view name, std::string_view help) {
  return prometheus::BuildGauge().Name(std::string(name)).Help(std::string(help)).Register(*families_);
}
Metrics::HistogramFamily& Metrics::Histogram(std::string_view name, std::string_view help) {
  return prometheus::BuildHistogram().Name(std::string(name)).Help(std::string(help)).Register(*families_);
}

Metrics::Metrics()
    : started_(Counter("grpc_server_started_total", "Calls that were begun.")),
      handled_(Counter("grpc_server_handled_total", "Calls that were answered, by the answer's code.")),
      success_(Counter("heed_request_success_total", "Inputs that were answered, by why the answer ended.")),
      failure_(Counter("heed_request_failure_total", "Inputs that were not answered, by why.")),
      deadline_missed_(
          Counter("heed_deadline_missed_total", "Inputs whose deadline passed, by how far they were.")),
      shed_(Counter("heed_requests_shed_total", "Inputs that the scheduler did not take, by why.")),
      prompt_tokens_(Counter("heed_prompt_tokens_total", "Tokens read.")),
      generation_tokens_(Counter("heed_generation_tokens_total", "Tokens made.")),
      load_seconds_(Gauge("heed_model_load_seconds", "What loading the model took.")),
      tokenization_(Histogram("heed_request_tokenization_time_seconds", "Text to tokens, one input.")),
      first_token_(
          Histogram("heed_time_to_first_token_seconds", "From a request's arrival to its first token.")),
      inter_token_(Histogram("heed_inter_token_latency_seconds", "From a token to the next.")),
      latency_(
          Histogram("heed_e2e_request_latency_seconds", "From a request's arrival to an input's answer.")),
      queue_(Histogram("heed_request_queue_time_seconds", "From submission to the first pass.")),
      prefill_(
          Histogram("heed_request_prefill_time_seconds", "From the first pass until the input was read.")),
      decode_(Histogram("heed_request_decode_time_seconds", "From then to the last token.")),
      batch_size_(Histogram("heed_batch_size", "Inputs that shared a pass.")),
      batch_tokens_(Histogram("heed_batch_tokens", "Rows of a pass.")) {}

EdgeEvents Metrics::Events() {
  EdgeEvents events;
  events.started = [this](const Method& method) { CallStarted(method.service, method.name); };
  events.handled = [this](const Method& method, const absl::Status& status, Duration, std::string_view) {
    CallHandled(method.service, method.name, status.code());
  };
  return events;
}

void Metrics::CallStarted(std::string_view service, std::string_view method) {
  started_.Add({{"grpc_service", std::string(service)}, {"grpc_method", std::string(method)}}).Increment();
}

void Metrics::CallHandled(std::string_view service, std::string_view method, absl::StatusCode code) {
  handled_
      .Add({{"grpc_service", std::string(service)},
            {"grpc_method", std::string(method)},
            {"grpc_code", CodeName(code)}})
      .Increment();
}

ModelMetrics* Metrics::ForModel(const ModelSpec& spec, const ModelInfo& info) {
  std::lock_guard lock(mutex_);
  const Labels labels = LabelsOf(spec, info);
  for (const auto& model : models_) {
    if (model->labels_ == labels) return model.get();
  }
  return models_.emplace_back(new ModelMetrics(this, spec, info)).get();
}

ModelMetrics::ModelMetrics(Metrics* metrics, const ModelSpec& spec, const ModelInfo& info)
    : metrics_(metrics),
      labels_(LabelsOf(spec, info)),
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

void ModelMetrics::Loaded(Duration time) { load_seconds_->Set(ToSeconds(time)); }
void ModelMetrics::Tokenized(Duration time) { tokenization_->Observe(ToSeconds(time)); }
void ModelMetrics::FirstToken(Duration since_arrival) { first_token_->Observe(ToSeconds(since_arrival)); }

void ModelMetrics::MoreTokens(int64_t tokens, Duration since_last) {
  for (int64_t i = 0; i < tokens; ++i)
    inter_token_->Observe(ToSeconds(since_last) / static_cast<double>(tokens));
}

void ModelMetrics::Succeeded(std::string_view finished_reason, Duration since_arrival) {
  metrics_->success_.Add(With("finished_reason", finished_reason)).Increment();
  latency_->Observe(ToSeconds(since_arrival));
}

void ModelMetrics::Failed(const absl::Status& status, Duration since_arrival) {
  Labels labels = With("code", CodeName(status.code()));
  labels.emplace("reason", ReasonOf(status.code()));
  metrics_->failure_.Add(labels).Increment();
  latency_->Observe(ToSeconds(since_arrival));
}

void ModelMetrics::Spent(const Usage& usage) {
  prompt_tokens_->Increment(static_cast<double>(usage.input_tokens));
  generation_tokens_->Increment(static_cast<double>(usage.output_tokens));
  queue_->Observe(ToSeconds(usage.queued));
  prefill_->Observe(ToSeconds(usage.prefill));
  if (usage.output_tokens > 0) decode_->Observe(ToSeconds(usage.decode));
}

void ModelMetrics::Shed(std::string_view reason) { metrics_->shed_.Add(With("reason", reason)).Increment(); }

SchedulerEvents ModelMetrics::Events() {
  SchedulerEvents events;
  events.step = [this](int64_t jobs, int64_t rows, int64_t) {
    batch_size_->Observe(static_cast<double>(jobs));
    batch_tokens_->Observe(static_cast<double>(rows));
  };
  events.refused = [this](std::string_view reason) { Shed(reason); };
  events.deadline_missed = [this](std::string_view stage) {
    metrics_->deadline_missed_.Add(With("stage", stage)).Increment();
  };
  return events;
}

}  // namespace heed
