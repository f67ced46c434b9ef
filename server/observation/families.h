// How metrics are registered: once, with all their labels, and kept by reference. A family is made by its
// first member, and its name, its words and its members' labels stand in one place.
#ifndef HEED_SERVER_OBSERVATION_FAMILIES_H_
#define HEED_SERVER_OBSERVATION_FAMILIES_H_

#include <string>
#include <vector>

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/labels.h"
#include "prometheus/registry.h"

namespace heed {

using CounterFamily = prometheus::Family<prometheus::Counter>;

inline CounterFamily& Counters(prometheus::Registry& registry, const std::string& name,
                               const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

inline prometheus::Counter& Counter(prometheus::Registry& registry, const std::string& name,
                                    const std::string& help, const prometheus::Labels& labels) {
  return Counters(registry, name, help).Add(labels);
}

inline prometheus::Gauge& Gauge(prometheus::Registry& registry, const std::string& name,
                                const std::string& help, const prometheus::Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
}

inline prometheus::Histogram& Histogram(prometheus::Registry& registry, const std::string& name,
                                        const std::string& help, const prometheus::Labels& labels,
                                        const std::vector<double>& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, buckets);
}

// The labels and one more.
inline prometheus::Labels With(prometheus::Labels labels, const std::string& name, const std::string& value) {
  labels.emplace(name, value);
  return labels;
}

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_FAMILIES_H_
