// Traces as OpenTelemetry has them, to a collector over OTLP/gRPC: the only place that knows OpenTelemetry.
//
// A call is a span of kind server, "heed.v1.Inference/Generate", and each of its steps a span within it:
// "tokenize", "queue", "pass", "write". docs/operations.md tells their attributes; none has a client's text.
#ifndef HEED_SERVER_OBSERVATION_OTLP_H_
#define HEED_SERVER_OBSERVATION_OTLP_H_

#include <string>

#include "server/observation/traces.h"

namespace heed {

// To the collector at http://HOST:PORT, or over TLS at https://HOST:PORT. An export fails when it has taken 2
// s. What the library has to say goes to the log, a line a second at most.
Traces::Export NewOtlpExport(const std::string& endpoint);

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_OTLP_H_
