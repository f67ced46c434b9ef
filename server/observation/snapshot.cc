#include "server/observation/snapshot.h"

#include <algorithm>
#include <utility>

#include "absl/log/check.h"
#include "prometheus/metric_family.h"

namespace heed {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;

HistogramSnapshot OfHistogram(const ClientMetric::Histogram& histogram) {
  HistogramSnapshot out{.count = static_cast<int64_t>(histogram.sample_count), .sum = histogram.sample_sum};
  for (const ClientMetric::Bucket& bucket : histogram.bucket)
    out.buckets.push_back({bucket.upper_bound, static_cast<int64_t>(bucket.cumulative_count)});
  return out;
}

MetricSnapshot OfMetric(const ClientMetric& metric, MetricType type) {
  MetricSnapshot out;
  for (const ClientMetric::Label& label : metric.label) out.labels[label.name] = label.value;
  if (type == MetricType::Histogram) {
    out.value = OfHistogram(metric.histogram);
  } else {
    out.value = type == MetricType::Counter ? metric.counter.value : metric.gauge.value;
  }
  return out;
}

FamilySnapshot::Type TypeOf(MetricType type) {
  if (type == MetricType::Counter) return FamilySnapshot::Type::kCounter;
  if (type == MetricType::Histogram) return FamilySnapshot::Type::kHistogram;
  CHECK(type == MetricType::Gauge);
  return FamilySnapshot::Type::kGauge;
}

FamilySnapshot OfFamily(prometheus::MetricFamily family) {
  FamilySnapshot out{
      .name = std::move(family.name), .help = std::move(family.help), .type = TypeOf(family.type)};
  for (const ClientMetric& metric : family.metric) out.metrics.push_back(OfMetric(metric, family.type));
  return out;
}

}  // namespace

std::vector<FamilySnapshot> Snapshot(const Collectables& collectables,
                                     const std::vector<std::string>& prefixes) {
  std::vector<FamilySnapshot> out;
  for (const auto& collectable : collectables) {
    for (prometheus::MetricFamily& family : collectable->Collect()) {
      const auto begins = [&](const std::string& prefix) { return family.name.starts_with(prefix); };
      if (prefixes.empty() || std::ranges::any_of(prefixes, begins))
        out.push_back(OfFamily(std::move(family)));
    }
  }
  return out;
}

}  // namespace heed
