// What the server counts, for Prometheus. Names follow vLLM's stems under `heed_` and the gRPC middlewares'
// under `grpc_server_`, units are seconds and bytes; docs/metrics.md lists them. Labels come from the
// methods, the loaded models and our own words only, so their number is bounded.
#ifndef HEED_SERVER_OBSERVATION_METRICS_H_
#define HEED_SERVER_OBSERVATION_METRICS_H_

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "prometheus/collectable.h"
#include "prometheus/registry.h"
#include "server/clock.h"
#include "server/edge.h"
#include "server/observation/model_metrics.h"
#include "server/observation/reason_counters.h"
#include "server/registry.h"

namespace heed {

// Upper bounds in seconds: 100 microseconds, a short pass, to 600 s, a long stream; neighbours are at most a
// factor of 2.5 apart.
std::vector<double> DurationBuckets();

// All of a server's. Thread-safe but for Add().
class Metrics {
 public:
  // Of methods with these indices, and of so many models.
  Metrics(std::span<const Method> methods, size_t models,
          std::vector<double> duration_buckets = DurationBuckets());

  EdgeEvents Events();  // for the edge

  // Makes what is counted of the model of this index: when it is made, before anybody is given it.
  ModelMetrics* Add(const ModelSpec& spec, const ModelInfo& info);
  ModelMetrics* Of(const ServedModel& model) const { return models_[model.spec.index].get(); }

  std::shared_ptr<prometheus::Collectable> families() const { return families_; }

 private:
  // What is counted of a method.
  struct Calls {
    prometheus::Counter *started, *received, *sent;
    std::array<prometheus::Counter*, 17> handled;  // by code
    prometheus::Histogram* took;
  };

  Calls Register(const Method& method) const;

  const std::shared_ptr<prometheus::Registry> families_ = std::make_shared<prometheus::Registry>();
  const std::vector<double> duration_buckets_;
  std::vector<Calls> calls_;  // by the method's index
  ReasonCounters shed_;
  prometheus::Counter& failed_tasks_;
  std::vector<std::unique_ptr<ModelMetrics>> models_;  // by the model's index
};

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_METRICS_H_
