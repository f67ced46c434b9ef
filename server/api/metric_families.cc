#include "server/api/metric_families.h"

#include <string>
#include <variant>
#include <vector>

#include "engine/base/status.h"
#include "server/error.h"

namespace heed {
namespace {

constexpr int kMostPrefixes = 64;
constexpr size_t kLongestPrefix = 128;  // bytes

absl::Status CheckPrefixes(const v1::GetMetricsRequest& request) {
  if (request.prefixes_size() > kMostPrefixes) {
    return AtField(Beyond(Invalid("there are ", request.prefixes_size(), " prefixes, at most ", kMostPrefixes,
                                  " may be asked for"),
                          request.prefixes_size(), kMostPrefixes),
                   "prefixes");
  }
  for (int i = 0; i < request.prefixes_size(); ++i) {
    const size_t bytes = request.prefixes(i).size();
    if (bytes >= 1 && bytes <= kLongestPrefix) continue;
    return AtField(Invalid("it has ", bytes, " bytes, must have 1 to ", kLongestPrefix),
                   Cat("prefixes[", i, "]"));
  }
  return absl::OkStatus();
}

v1::MetricType ToMessage(FamilySnapshot::Type type) {
  switch (type) {
    case FamilySnapshot::Type::kCounter:
      return v1::METRIC_TYPE_COUNTER;
    case FamilySnapshot::Type::kGauge:
      return v1::METRIC_TYPE_GAUGE;
    case FamilySnapshot::Type::kHistogram:
      return v1::METRIC_TYPE_HISTOGRAM;
  }
  return v1::METRIC_TYPE_UNSPECIFIED;
}

void Set(const HistogramSnapshot& histogram, v1::MetricHistogram* out) {
  out->set_count(histogram.count);
  out->set_sum(histogram.sum);
  for (const HistogramSnapshot::Bucket& bucket : histogram.buckets) {
    v1::MetricBucket* added = out->add_buckets();
    added->set_upper_bound(bucket.upper_bound);
    added->set_cumulative_count(bucket.cumulative_count);
  }
}

void Set(const MetricSnapshot& metric, v1::Metric* out) {
  for (const auto& [name, value] : metric.labels) (*out->mutable_labels())[name] = value;
  if (const double* value = std::get_if<double>(&metric.value)) {
    out->set_value(*value);
  } else {
    Set(std::get<HistogramSnapshot>(metric.value), out->mutable_histogram());
  }
}

bool MayRead(const Rights* rights, const MetricSnapshot& metric) {
  const auto model = metric.labels.find("model_name");
  return model == metric.labels.end() || CheckModel(rights, model->second).ok();
}

void Set(const FamilySnapshot& family, const Rights* rights, v1::MetricFamily* out) {
  out->set_name(family.name);
  out->set_help(family.help);
  out->set_type(ToMessage(family.type));
  for (const MetricSnapshot& metric : family.metrics) {
    if (MayRead(rights, metric)) Set(metric, out->add_metrics());
  }
}

}  // namespace

absl::StatusOr<v1::GetMetricsResponse> GetMetrics(const v1::GetMetricsRequest& request, const ApiContext& api,
                                                  const Rights* rights) {
  RETURN_IF_ERROR(CheckPrefixes(request));
  v1::GetMetricsResponse response;
  response.set_uptime_seconds(ToSeconds(api.edge->clock().Now() - api.began));
  const std::vector<std::string> prefixes(request.prefixes().begin(), request.prefixes().end());
  for (const FamilySnapshot& family : Snapshot(*api.collectables, prefixes))
    Set(family, rights, response.add_families());
  const auto bytes = static_cast<int64_t>(response.ByteSizeLong());
  const int64_t most = api.config->transport().send_bytes();
  if (bytes <= most) return response;
  return Beyond(
      Error(ErrorReason::kAnswerTooLarge, "the answer has ", bytes,
            " bytes, and a message from the server at most ", most, ": prefixes choose some of the families"),
      bytes, most);
}

}  // namespace heed
