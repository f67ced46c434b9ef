// Metrics that are read when somebody asks: what runs and waits now, and what the process takes.
#ifndef HEED_SERVER_OBSERVATION_GAUGES_H_
#define HEED_SERVER_OBSERVATION_GAUGES_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "prometheus/collectable.h"
#include "server/observation/traces.h"
#include "server/registry.h"

namespace heed {

// Numbers that others keep, and may be asked for at any time from any thread. Those not given are not
// exposed.
struct GaugeSources {
  std::function<int64_t()> calls_in_flight;
  std::function<bool()> listener_up;
  std::function<int64_t()> answer_bytes_reserved;
  std::function<int64_t()> answer_bytes_limit;
  std::function<int64_t()> certificate_expiry;  // in seconds since 1970
  std::function<SpanCounts()> spans;
};

// Thread-safe.
class Gauges final : public prometheus::Collectable {
 public:
  // The registry must outlive it, and what the sources use.
  Gauges(const Registry* registry, GaugeSources sources)
      : registry_(registry), sources_(std::move(sources)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Registry* const registry_;
  const GaugeSources sources_;
};

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_GAUGES_H_
