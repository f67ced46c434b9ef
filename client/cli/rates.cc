#include "client/cli/rates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"

namespace heed::cli {
namespace {

// The metrics of a family that are meant.
using Choice = std::function<bool(const v1::Metric& metric)>;
bool All(const v1::Metric&) { return true; }

std::string Label(const v1::Metric& metric, const std::string& name) {
  const auto found = metric.labels().find(name);
  return found == metric.labels().end() ? "" : found->second;
}

Choice With(const std::string& name, const std::string& value) {
  return [=](const v1::Metric& metric) { return Label(metric, name) == value; };
}
Choice Without(const std::string& name, const std::string& value) {
  return [=](const v1::Metric& metric) { return Label(metric, name) != value; };
}
Choice Both(Choice one, Choice other) {
  return [=](const v1::Metric& metric) { return one(metric) && other(metric); };
}

// An answer, by the families' names.
class Sample {
 public:
  explicit Sample(const v1::GetMetricsResponse& answer) : uptime_(answer.uptime_seconds()) {
    for (const v1::MetricFamily& family : answer.families()) families_[family.name()] = &family;
  }

  double uptime() const { return uptime_; }

  std::vector<const v1::Metric*> Of(std::string_view family, const Choice& choice) const {
    std::vector<const v1::Metric*> found;
    const auto entry = families_.find(family);
    if (entry == families_.end()) return found;
    for (const v1::Metric& metric : entry->second->metrics()) {
      if (choice(metric)) found.push_back(&metric);
    }
    return found;
  }

  // Of histograms: of their counts.
  double Sum(std::string_view family, const Choice& choice = All) const {
    double sum = 0;
    for (const v1::Metric* metric : Of(family, choice))
      sum += metric->has_histogram() ? static_cast<double>(metric->histogram().count()) : metric->value();
    return sum;
  }

  // The histograms together: what each bucket has by itself, by its upper bound.
  std::map<double, double> Buckets(std::string_view family, const Choice& choice) const {
    std::map<double, double> counts;
    for (const v1::Metric* metric : Of(family, choice)) {
      double below = 0;
      for (const v1::MetricBucket& bucket : metric->histogram().buckets()) {
        const auto count = static_cast<double>(bucket.cumulative_count());
        counts[bucket.upper_bound()] += count - below;
        below = count;
      }
    }
    return counts;
  }

  std::string FirstLabel(std::string_view family, const std::string& name) const {
    const auto found = Of(family, All);
    return found.empty() ? "" : Label(*found.front(), name);
  }

 private:
  const double uptime_;
  std::map<std::string_view, const v1::MetricFamily*> families_;
};

// What moved from one answer to the next.
class Interval {
 public:
  Interval(const Sample* before, const Sample& now) : before_(before), now_(now) {
    constexpr std::string_view kStart = "process_start_time_seconds";
    if (before == nullptr || before->Sum(kStart) != now.Sum(kStart)) before_ = nullptr;
    if (before_ != nullptr) seconds_ = now.uptime() - before->uptime();
    if (!(seconds_ > 0)) before_ = nullptr;
  }

  Figure Rate(std::string_view counter, const Choice& choice = All) const {
    if (before_ == nullptr) return std::nullopt;
    return std::max(0.0, now_.Sum(counter, choice) - before_->Sum(counter, choice)) / seconds_;
  }

  Figure QuantileOf(double share, std::string_view histogram, const Choice& choice) const {
    if (before_ == nullptr) return std::nullopt;
    std::map<double, double> was = before_->Buckets(histogram, choice);
    std::vector<CountedBucket> counted;
    for (const auto& [bound, count] : now_.Buckets(histogram, choice))
      counted.push_back({bound, std::max(0.0, count - was[bound])});
    return Quantile(share, counted);
  }

 private:
  const Sample* before_;  // nullptr: there is nothing to compare with
  const Sample& now_;
  double seconds_ = 0;
};

ModelActivity ModelOf(const v1::Metric& state, const Sample& now, const Interval& interval) {
  ModelActivity model{.name = Label(state, "model_name"),
                      .version = Label(state, "model_version"),
                      .state = Label(state, "state")};
  const Choice of = Both(With("model_name", model.name), With("model_version", model.version));
  const Choice answered = Both(of, With("outcome", "ok"));
  model.running = now.Sum("heed_num_requests_running", of);
  model.waiting = now.Sum("heed_num_requests_waiting", of);
  model.state_bytes = now.Sum("heed_state_reserved_bytes", of);
  model.state_limit_bytes = now.Sum("heed_state_limit_bytes", of);
  model.requests = interval.Rate("heed_e2e_request_latency_seconds", of);
  model.errors = interval.Rate("heed_e2e_request_latency_seconds", Both(of, Without("outcome", "ok")));
  model.prompt_tokens = interval.Rate("heed_prompt_tokens_total", of);
  model.generated_tokens = interval.Rate("heed_generation_tokens_total", of);
  model.first_token_p50 = interval.QuantileOf(0.5, "heed_time_to_first_token_seconds", of);
  model.first_token_p95 = interval.QuantileOf(0.95, "heed_time_to_first_token_seconds", of);
  model.latency_p50 = interval.QuantileOf(0.5, "heed_e2e_request_latency_seconds", answered);
  model.latency_p95 = interval.QuantileOf(0.95, "heed_e2e_request_latency_seconds", answered);
  model.queue_p95 = interval.QuantileOf(0.95, "heed_request_queue_time_seconds", of);
  return model;
}

// Calls of Generate that were begun and have not ended.
double OpenStreams(const Sample& now) {
  const Choice streams = With("grpc_method", "Generate");
  return std::max(
      0.0, now.Sum("grpc_server_started_total", streams) - now.Sum("grpc_server_handled_total", streams));
}

}  // namespace

v1::GetMetricsRequest ActivityRequest() {
  v1::GetMetricsRequest request;
  for (const char* family :
       {"grpc_server_handled_total", "grpc_server_started_total", "heed_build_info", "heed_calls_in_flight",
        "heed_e2e_request_latency_seconds", "heed_generation_tokens_total", "heed_isa_info",
        "heed_memory_available_bytes", "heed_model_state", "heed_num_requests_running",
        "heed_num_requests_waiting", "heed_prompt_tokens_total", "heed_request_queue_time_seconds",
        "heed_state_limit_bytes", "heed_state_reserved_bytes", "heed_time_to_first_token_seconds",
        "process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"})
    request.add_prefixes(family);
  return request;
}

ServerActivity Between(const v1::GetMetricsResponse* before, const v1::GetMetricsResponse& now) {
  const std::optional<Sample> first = before == nullptr ? std::nullopt : std::optional<Sample>(*before);
  const Sample second(now);
  const Interval interval(first ? &*first : nullptr, second);
  ServerActivity server{.version = second.FirstLabel("heed_build_info", "version"),
                        .uptime_seconds = now.uptime_seconds(),
                        .cpus = interval.Rate("process_cpu_seconds_total"),
                        .resident_bytes = second.Sum("process_resident_memory_bytes"),
                        .available_bytes = second.Sum("heed_memory_available_bytes"),
                        .state_bytes = second.Sum("heed_state_reserved_bytes"),
                        .state_limit_bytes = second.Sum("heed_state_limit_bytes"),
                        .calls = std::max(0.0, second.Sum("heed_calls_in_flight") - 1),
                        .streams = OpenStreams(second)};
  if (!absl::SimpleAtod(second.FirstLabel("heed_isa_info", "cpus"), &server.available_cpus))
    server.available_cpus = 0;
  const auto is_so = [](const v1::Metric& state) { return state.value() == 1; };
  for (const v1::Metric* state : second.Of("heed_model_state", is_so))
    server.models.push_back(ModelOf(*state, second, interval));
  return server;
}

Figure Quantile(double share, const std::vector<CountedBucket>& buckets) {
  double all = 0;
  for (const CountedBucket& bucket : buckets) all += bucket.count;
  if (!(all > 0)) return std::nullopt;
  const double rank = share * all;
  double below = 0, lower = 0;
  for (const CountedBucket& bucket : buckets) {
    if (std::isinf(bucket.upper_bound)) break;
    if (bucket.count > 0 && below + bucket.count >= rank)
      return lower + (bucket.upper_bound - lower) * (rank - below) / bucket.count;
    below += bucket.count;
    lower = bucket.upper_bound;
  }
  return lower;
}

}  // namespace heed::cli
