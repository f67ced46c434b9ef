// Answers of GetMetrics as a test writes them.
#ifndef HEED_TESTS_CLIENT_METRICS_H_
#define HEED_TESTS_CLIENT_METRICS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heed/v1/server.pb.h"

namespace heed::cli {

using Labels = std::map<std::string, std::string>;

struct MadeMetrics {
  explicit MadeMetrics(double uptime) { answer.set_uptime_seconds(uptime); }

  v1::Metric& Add(const std::string& family, const Labels& labels) {
    v1::MetricFamily* found = nullptr;
    for (v1::MetricFamily& each : *answer.mutable_families()) {
      if (each.name() == family) found = &each;
    }
    if (found == nullptr) found = answer.add_families();
    found->set_name(family);
    v1::Metric& metric = *found->add_metrics();
    for (const auto& [name, value] : labels) (*metric.mutable_labels())[name] = value;
    if (labels.contains("model_name")) (*metric.mutable_labels())["model_version"] = "1";
    return metric;
  }

  void Value(const std::string& family, double value, const Labels& labels = {}) {
    Add(family, labels).set_value(value);
  }

  // Upper bounds, and how many observations each bucket has by itself.
  void Observed(const std::string& family, const std::vector<std::pair<double, int>>& buckets,
                const Labels& labels) {
    v1::MetricHistogram& histogram = *Add(family, labels).mutable_histogram();
    int below = 0;
    for (const auto& [bound, count] : buckets) {
      v1::MetricBucket& bucket = *histogram.add_buckets();
      bucket.set_upper_bound(bound);
      bucket.set_cumulative_count(below += count);
    }
    histogram.set_count(below);
  }

  void Model(const std::string& name, const std::string& state) {
    for (const char* each : {"loading", "ready", "failed"})
      Value("heed_model_state", each == state ? 1 : 0, {{"model_name", name}, {"state", each}});
  }

  v1::GetMetricsResponse answer;
};

}  // namespace heed::cli

#endif  // HEED_TESTS_CLIENT_METRICS_H_
