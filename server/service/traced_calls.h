// Calls in traces, beside the metrics and the log: where the config names a collector.
#ifndef HEED_SERVER_SERVICE_TRACED_CALLS_H_
#define HEED_SERVER_SERVICE_TRACED_CALLS_H_

#include <memory>

#include "heed/config/v1/config.pb.h"
#include "server/edge.h"
#include "server/observation/traces.h"

namespace heed {

// Null without a collector: nothing is traced, and no connection made.
std::unique_ptr<Traces> NewTraces(const config::v1::TracesConfig& config);

// The same events; calls are traced too, if there are traces, which must outlive the edge.
EdgeEvents Traced(EdgeEvents events, Traces* traces);

}  // namespace heed

#endif  // HEED_SERVER_SERVICE_TRACED_CALLS_H_
