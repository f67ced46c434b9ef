// What a caller says of the trace that its call is in: `traceparent` and `tracestate`, as W3C's Trace Context
// has them.
#ifndef HEED_SERVER_TRANSPORT_TRACE_HEADERS_H_
#define HEED_SERVER_TRANSPORT_TRACE_HEADERS_H_

#include "grpcpp/server_context.h"
#include "server/trace.h"

namespace heed {

// A state in several headers is one list.
TraceHeaders TraceHeadersOf(const grpc::CallbackServerContext& context);

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_TRACE_HEADERS_H_
