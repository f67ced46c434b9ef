// A counter for each reason why something was not answered, registered when the reason is first seen and kept
// from there on.
#ifndef HEED_SERVER_OBSERVATION_REASON_COUNTERS_H_
#define HEED_SERVER_OBSERVATION_REASON_COUNTERS_H_

#include <array>
#include <atomic>
#include <functional>
#include <utility>

#include "prometheus/counter.h"
#include "prometheus/labels.h"
#include "server/error.h"
#include "server/observation/families.h"

namespace heed {

// Thread-safe. The family must outlive it.
class ReasonCounters {
 public:
  using LabelsOf = std::function<prometheus::Labels(ErrorReason)>;

  ReasonCounters(CounterFamily* family, LabelsOf labels) : family_(family), labels_(std::move(labels)) {}

  prometheus::Counter& Of(ErrorReason reason) {
    std::atomic<prometheus::Counter*>& counter = counters_[static_cast<size_t>(reason)];
    if (counter == nullptr) counter = &family_->Add(labels_(reason));  // of two at once: the same
    return *counter;
  }

 private:
  static constexpr size_t kReasons = 0
#define REASON(name, text, code) +1
#include "server/reasons.def"
#undef REASON
      ;

  CounterFamily* const family_;
  const LabelsOf labels_;
  std::array<std::atomic<prometheus::Counter*>, kReasons> counters_{};
};

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_REASON_COUNTERS_H_
