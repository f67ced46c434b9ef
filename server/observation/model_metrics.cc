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

template <size_t n>
std::array<prometheus::Counter*, n> CountersBy(CounterFamily& family, const Labels& labels, const char* name,
                                               const char* const (&values)[n]) {
  std::array<prometheus::Counter*, n> counters;
  for (size_t i = 0; i < n; ++i) counters[i] = &family.Add(With(labels, name, values[i]));
  return counters;
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

ModelMetrics::ModelMetrics(prometheus::Registry& registry, const ModelSpec& spec, const ModelInfo& info,
                           const std::vector<double>& times)
    : name_(spec.name),
      labels_(LabelsOf(spec, info)),
      load_seconds_(Gauge(registry, "heed_model_load_seconds", "What loading the model took.", labels_)),
      prompt_tokens_(
          Counter(registry, "heed_prompt_tokens_total", "Tokens of inputs that passes have read.", labels_)),
      generation_tokens_(
          Counter(registry, "heed_generation_tokens_total", "Tokens that passes have made.", labels_)),
      failed_passes_(Counter(registry, "heed_model_failures_total",
                             "Passes, and steps of an input, that threw.", labels_)),
      tokenization_(Histogram(registry, "heed_request_tokenization_time_seconds",
                              "Text to tokens, one input.", labels_, times)),
      queue_(Histogram(registry, "heed_request_queue_time_seconds",
                       "From an input's submission to its first pass.", labels_, times)),
      prefill_(Histogram(registry, "heed_request_prefill_time_seconds",
                         "From the first pass until the input was read.", labels_, times)),
      decode_(Histogram(registry, "heed_request_decode_time_seconds",
                        "From when the input was read to the last token.", labels_, times)),
      first_token_(Histogram(registry, "heed_time_to_first_token_seconds",
                             "From an input's submission until its first token was made.", labels_, times)),
      inter_token_(Histogram(registry, "heed_inter_token_latency_seconds",
                             "From when a token was made until the next was.", labels_, times)),
      first_token_taken_(Histogram(registry, "heed_stream_time_to_first_token_seconds",
                                   "From a request's arrival until its stream took a sample's first token.",
                                   labels_, times)),
      inter_token_taken_(Histogram(
          registry, "heed_stream_inter_token_seconds",
          "From when a stream took a token until it took the next, as its client reads.", labels_, times)),
      batch_size_(
          Histogram(registry, "heed_batch_size", "Inputs that shared a pass.", labels_, CountBuckets())),
      batch_tokens_(Histogram(registry, "heed_batch_tokens", "Rows of a pass.", labels_, CountBuckets())),
      success_(CountersBy(Counters(registry, "heed_request_success_total",
                                   "Inputs that were answered, by why the answer ended."),
                          labels_, "finished_reason", kFinishedBy)),
      deadline_(CountersBy(Counters(registry, "heed_deadline_missed_total",
                                    "Inputs whose deadline passed, by how far they were."),
                           labels_, "stage", kStages)),
      failure_(&Counters(registry, "heed_request_failure_total", "Inputs that were not answered, by why."),
               [this](ErrorReason reason) {
                 return With(With(labels_, "reason", std::string(Name(reason))), "code",
                             CodeName(CodeOf(reason)));
               }),
      shed_(&ShedFamily(registry),
            [this](ErrorReason reason) { return With(labels_, "reason", std::string(Name(reason))); }) {
  for (size_t i = 0; i < latency_.size(); ++i) {
    latency_[i] = &Histogram(registry, "heed_e2e_request_latency_seconds",
                             "From a request's arrival to an input's end, by how it ended.",
                             With(labels_, "outcome", kOutcomes[i]), times);
  }
  shed_.Of(ErrorReason::kQueueFull);
  shed_.Of(ErrorReason::kAnswersFull);
  shed_.Of(ErrorReason::kServerStopping);
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
