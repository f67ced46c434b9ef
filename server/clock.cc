#include "server/clock.h"

namespace heed {
namespace {
class SteadyClock : public Clock {
 public:
  Time Now() const override { return std::chrono::steady_clock::now(); }
};
}  // namespace

const Clock& Clock::Real() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace heed
