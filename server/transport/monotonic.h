// Deadlines for what we ask of gRPC, on its steady clock: a wall clock that jumps moves none.
#ifndef HEED_SERVER_TRANSPORT_MONOTONIC_H_
#define HEED_SERVER_TRANSPORT_MONOTONIC_H_

#include <chrono>

#include "grpc/support/time.h"
#include "server/clock.h"

namespace heed {

inline gpr_timespec FromNow(Duration time) {
  const int64_t nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(nanoseconds, GPR_TIMESPAN));
}

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_MONOTONIC_H_
