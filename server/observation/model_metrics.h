// What is counted of one model: of its inputs by the API, of its passes by its scheduler, each while it
// happens. Registered as a whole when the model is ready, so that all of it shows 0 from there on.
#ifndef HEED_SERVER_OBSERVATION_MODEL_METRICS_H_
#define HEED_SERVER_OBSERVATION_MODEL_METRICS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/labels.h"
#include "prometheus/registry.h"
#include "server/clock.h"
#include "server/job.h"
#include "server/observation/log.h"
#include "server/observation/reason_counters.h"
#include "server/registry.h"

namespace heed {

enum class FinishedBy { kComplete, kStop, kLength };  // an answer that was read off, a text and what ended it

// How an input's way ended, for its latency: a refusal is quick, and must not make the answers look so.
enum class Outcome { kOk, kRefused, kCancelled, kDeadline, kError };
Outcome OutcomeOf(const absl::Status& status);

// Thread-safe, quick: nothing is looked up by a name.
class ModelMetrics {
 public:
  ModelMetrics(prometheus::Registry& registry, const ModelSpec& spec, const ModelInfo& info,
               const std::vector<double>& duration_buckets);

  void Loaded(Duration time);
  SchedulerEvents Events();  // for the model's scheduler

  // For each input, in this order.
  void Tokenized(Duration time);
  void Refused(const absl::Status& status);  // it has no job: shed, if that is for the load's sake. Once
  // It was answered, or not; of a Generate each of its samples.
  void Succeeded(FinishedBy by, Duration since_arrival);
  void Failed(const absl::Status& status, Duration since_arrival);
  // What an answer took. Without input tokens, the input was read for another one, which tells of that.
  void Spent(const Usage& usage);

  // Of each sample of a stream, when the client takes them. Several at once count as evenly spread.
  void FirstTokenTaken(Duration since_arrival);
  void MoreTokensTaken(int64_t tokens, Duration since_last);

 private:
  void Made(int64_t tokens, Duration since, bool first);
  void PassFailed(std::string_view what);

  // What registers with the model's labels.
  struct Families {
    prometheus::Registry& registry;
    const prometheus::Labels labels;
    const std::vector<double> durations;

    prometheus::Counter& Total(const char* name, const char* help) const;
    prometheus::Histogram& Times(const char* name, const char* help) const;
    prometheus::Histogram& Sizes(const char* name, const char* help) const;
    // Three counters, by the values of one more label.
    std::array<prometheus::Counter*, 3> TotalsBy(const char* name, const char* help, const char* label,
                                                 const char* const (&values)[3]) const;
    std::array<prometheus::Histogram*, 5> TimesByOutcome(const char* name, const char* help) const;
  };

  const std::string name_;
  const Families families_;
  prometheus::Gauge& load_seconds_;

  prometheus::Counter& prompt_tokens_ =
      families_.Total("heed_prompt_tokens_total", "Tokens of inputs that passes have read.");
  prometheus::Counter& generation_tokens_ =
      families_.Total("heed_generation_tokens_total", "Tokens that passes have made.");
  prometheus::Counter& failed_passes_ =
      families_.Total("heed_model_failures_total", "Passes, and steps of an input, that threw.");

  prometheus::Histogram& tokenization_ =
      families_.Times("heed_request_tokenization_time_seconds", "Text to tokens, one input.");
  prometheus::Histogram& queue_ =
      families_.Times("heed_request_queue_time_seconds", "From an input's submission to its first pass.");
  prometheus::Histogram& prefill_ =
      families_.Times("heed_request_prefill_time_seconds", "From the first pass until the input was read.");
  prometheus::Histogram& decode_ =
      families_.Times("heed_request_decode_time_seconds", "From when the input was read to the last token.");
  prometheus::Histogram& first_token_ = families_.Times(
      "heed_time_to_first_token_seconds", "From an input's submission until its first token was made.");
  prometheus::Histogram& inter_token_ =
      families_.Times("heed_inter_token_latency_seconds", "From when a token was made until the next was.");
  prometheus::Histogram& first_token_taken_ =
      families_.Times("heed_stream_time_to_first_token_seconds",
                      "From a request's arrival until its stream took a sample's first token.");
  prometheus::Histogram& inter_token_taken_ =
      families_.Times("heed_stream_inter_token_seconds",
                      "From when a stream took a token until it took the next, as its client reads.");
  prometheus::Histogram& batch_size_ = families_.Sizes("heed_batch_size", "Inputs that shared a pass.");
  prometheus::Histogram& batch_tokens_ = families_.Sizes("heed_batch_tokens", "Rows of a pass.");

  const std::array<prometheus::Counter*, 3> success_;    // by FinishedBy
  const std::array<prometheus::Counter*, 3> deadline_;   // by the scheduler's stage
  const std::array<prometheus::Histogram*, 5> latency_;  // by Outcome
  ReasonCounters failure_, shed_;
  LogLimit log_limit_;
};

// heed_requests_shed_total: of models, and of what no model was asked for.
CounterFamily& ShedFamily(prometheus::Registry& registry);

// "classification", "generation", ...: what a model is for, as the label `task`.
std::string_view TaskOf(const ModelInfo& info);
// model_name, model_version, task, attention: on every family of a model.
prometheus::Labels LabelsOf(const ModelSpec& spec, const ModelInfo& info);

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_MODEL_METRICS_H_
