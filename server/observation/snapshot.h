// Metrics as they are at one moment, as plain data: for whoever tells of them otherwise than on Prometheus's
// page, without knowing Prometheus.
#ifndef HEED_SERVER_OBSERVATION_SNAPSHOT_H_
#define HEED_SERVER_OBSERVATION_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "prometheus/collectable.h"

namespace heed {

// What has metrics, in the order in which they are shown. Thread-safe to read.
using Collectables = std::vector<std::shared_ptr<prometheus::Collectable>>;

struct HistogramSnapshot {
  struct Bucket {
    double upper_bound = 0;  // of the last one infinity
    int64_t cumulative_count = 0;
  };
  int64_t count = 0;
  double sum = 0;
  std::vector<Bucket> buckets;
};

struct MetricSnapshot {
  std::map<std::string, std::string> labels;
  std::variant<double, HistogramSnapshot> value;  // a number of a counter and of a gauge
};

struct FamilySnapshot {
  enum class Type { kCounter, kGauge, kHistogram };  // what we have: no summaries
  std::string name, help;
  Type type = Type::kGauge;
  std::vector<MetricSnapshot> metrics;
};

// The families whose names begin with one of the prefixes; all of them if there are none. Any thread.
std::vector<FamilySnapshot> Snapshot(const Collectables& collectables,
                                     const std::vector<std::string>& prefixes = {});

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_SNAPSHOT_H_
