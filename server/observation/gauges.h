// Metrics that are read when somebody asks: what runs and waits now, and what the process takes.
#ifndef HEED_SERVER_OBSERVATION_GAUGES_H_
#define HEED_SERVER_OBSERVATION_GAUGES_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "prometheus/collectable.h"
#include "server/registry.h"

namespace heed {

// Thread-safe.
class Gauges final : public prometheus::Collectable {
 public:
  // The registry must outlive it, and what the functions use.
  Gauges(const Registry* registry, std::function<int64_t()> calls_in_flight,
         std::function<bool()> listener_up)
      : registry_(registry),
        calls_in_flight_(std::move(calls_in_flight)),
        listener_up_(std::move(listener_up)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Registry* const registry_;
  const std::function<int64_t()> calls_in_flight_;
  const std::function<bool()> listener_up_;
};

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_GAUGES_H_
