#include "server/observation/model_metrics.h"

#include "server/error.h"
#include "server/observation/codes.h"
#include "server/observation/families.h"

namespace heed {
namespace {

using prometheus::Labels;

constexpr const char* kFinishedBy[] = {"complete", "stop", "length"};
constexpr const char* kStages[] = {"queue", "prefill", "decode"};
constexpr const char* kOutcomes[] = {"ok", "refused", "cancelled", "deadline", "error"};

// Powers of two to 65,536.
const std::vector<double>& CountBuckets() {
  static const auto buckets = [] {
    std::vector<double> powers;
    for (int i = 0; i <= 16; ++i) powers.push_back(1 << i);
    return powers;
  }();
  return buckets;
}

// Those that waiting would have helped: for the load's sake, or because the server stops.
bool IsShed(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

}  // namespace

Outcome OutcomeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return Outcome::kOk;
    case absl::StatusCode::kCancelled:
      return Outcome::kCancelled;
    case absl::StatusCode::kDeadlineExceeded:
      return Outcome::kDeadline;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnavailable:
      return Outcome::kRefused;
    case absl::StatusCode::kResourceExhausted:
      return ReasonOf(status) == ErrorReason::kOutOfMemory ? Outcome::kError : Outcome::kRefused;
    default:
      return Outcome::kError;
  }
}

CounterFamily& ShedFamily(prometheus::Registry& registry) {
  return Counters(registry, "heed_requests_shed_total",
                  "Requests and inputs that were turned away under load or while the server stops, by why.");
}

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

Labels LabelsOf(const ModelSpec& spec, const ModelInfo& info) {
  return {{"model_name", spec.name},
          {"model_version", spec.version},
          {"task", std::string(TaskOf(info))},
          {"attention", info.attention}};
}

prometheus::Counter& ModelMetrics::Families::Total(const char* name, const char* help) const {
  return Counter(registry, name, help, labels);
}

prometheus::Histogram& ModelMetrics::Families::Times(const char* name, const char* help) const {
  return Histogram(registry, name, help, labels, durations);
}

prometheus::Histogram& ModelMetrics::Families::Sizes(const char* name, const char* help) const {
  return Histogram(registry, name, help, labels, CountBuckets());
}

std::array<prometheus::Counter*, 3> ModelMetrics::Families::TotalsBy(const char* name, const char* help,
                                                                     const char* label,
                                                                     const char* const (&values)[3]) const {
  std::array<prometheus::Counter*, 3> counters;
  for (size_t i = 0; i < counters.size(); ++i)
    counters[i] = &Counter(registry, name, help, With(labels, label, values[i]));
  return counters;
}

std::array<prometheus::Histogram*, 5> ModelMetrics::Families::TimesByOutcome(const char* name,
                                                                             const char* help) const {
  std::array<prometheus::Histogram*, 5> histograms;
  for (size_t i = 0; i < histograms.size(); ++i)
    histograms[i] = &Histogram(registry, name, help, With(labels, "outcome", kOutcomes[i]), durations);
  return histograms;
}

ModelMetrics::ModelMetrics(prometheus::Registry& registry, const ModelSpec& spec, const ModelInfo& info,
                           const std::vector<double>& duration_buckets)
    : name_(spec.name),
      families_{registry, LabelsOf(spec, info), duration_buckets},
      load_seconds_(
          Gauge(registry, "heed_model_load_seconds", "What loading the model took.", families_.labels)),
      success_(families_.TotalsBy("heed_request_success_total",
                                  "Inputs that were answered, by why the answer ended.", "finished_reason",
                                  kFinishedBy)),
      deadline_(families_.TotalsBy("heed_deadline_missed_total",
                                   "Inputs whose deadline passed, by how far they were.", "stage", kStages)),
      latency_(families_.TimesByOutcome("heed_e2e_request_latency_seconds",
                                        "From a request's arrival to an input's end, by how it ended.")),
      failure_(&Counters(registry, "heed_request_failure_total", "Inputs that were not answered, by why."),
               [this](ErrorReason reason) {
                 return With(With(families_.labels, "reason", std::string(Name(reason))), "code",
                             CodeName(CodeOf(reason)));
               }),
      shed_(&ShedFamily(registry), [this](ErrorReason reason) {
        return With(families_.labels, "reason", std::string(Name(reason)));
      }) {
  for (ErrorReason reason :
       {ErrorReason::kQueueFull, ErrorReason::kAnswersFull, ErrorReason::kServerStopping})
    shed_.Of(reason);
  for (ErrorReason reason :
       {ErrorReason::kClientStalled, ErrorReason::kModelError, ErrorReason::kOutputNotFinite})
    failure_.Of(reason);  // alerts watch them, and an increase needs a value before
}

void ModelMetrics::Loaded(Duration time) { load_seconds_.Set(ToSeconds(time)); }
void ModelMetrics::Tokenized(Duration time) { tokenization_.Observe(ToSeconds(time)); }

void ModelMetrics::Refused(const absl::Status& status) {
  if (IsShed(status)) shed_.Of(ReasonOf(status)).Increment();
}

void ModelMetrics::Succeeded(FinishedBy by, Duration since_arrival) {
  success_[static_cast<size_t>(by)]->Increment();
  latency_[static_cast<size_t>(Outcome::kOk)]->Observe(ToSeconds(since_arrival));
}

void ModelMetrics::Failed(const absl::Status& status, Duration since_arrival) {
  failure_.Of(ReasonOf(status)).Increment();
  latency_[static_cast<size_t>(OutcomeOf(status))]->Observe(ToSeconds(since_arrival));
}

void ModelMetrics::Spent(const Usage& usage) {
  if (usage.input_tokens > 0) prefill_.Observe(ToSeconds(usage.prefill));
  if (usage.output_tokens > 0) decode_.Observe(ToSeconds(usage.decode));
}

void ModelMetrics::FirstTokenTaken(Duration since_arrival) {
  first_token_taken_.Observe(ToSeconds(since_arrival));
}

void ModelMetrics::MoreTokensTaken(int64_t tokens, Duration since_last) {
  for (int64_t i = 0; i < tokens; ++i)
    inter_token_taken_.Observe(ToSeconds(since_last) / static_cast<double>(tokens));
}

// Several at once are those of an input's samples, each as long after its last one. What a beam search tells
// at its end are first tokens all together.
void ModelMetrics::Made(int64_t tokens, Duration since, bool first) {
  generation_tokens_.Increment(static_cast<double>(tokens));
  if (first) return first_token_.Observe(ToSeconds(since));
  for (int64_t i = 0; i < tokens; ++i) inter_token_.Observe(ToSeconds(since));
}

void ModelMetrics::PassFailed(std::string_view what) {
  failed_passes_.Increment();
  if (log_limit_.Lets()) LogError("pass failed", {{"model", name_}, {"error", what}});
}

SchedulerEvents ModelMetrics::Events() {
  SchedulerEvents events;
  events.step = [this](int64_t jobs, int64_t rows, int64_t) {
    batch_size_.Observe(static_cast<double>(jobs));
    batch_tokens_.Observe(static_cast<double>(rows));
  };
  events.admitted = [this](Duration queued) { queue_.Observe(ToSeconds(queued)); };
  events.read = [this](int64_t rows) { prompt_tokens_.Increment(static_cast<double>(rows)); };
  events.made = [this](int64_t tokens, Duration since, bool first) { Made(tokens, since, first); };
  events.deadline_missed = [this](std::string_view stage) {
    deadline_[stage == kStages[0] ? 0 : stage == kStages[1] ? 1 : 2]->Increment();
  };
  events.failed = [this](std::string_view what) { PassFailed(what); };
  return events;
}

}  // namespace heed
