// Calls in the log, beside the metrics: those that failed for a reason of ours. What clients do wrong is
// counted and told to them; it could fill the log at their will.
#ifndef HEED_SERVER_SERVICE_CALL_LOG_H_
#define HEED_SERVER_SERVICE_CALL_LOG_H_

#include "server/edge.h"

namespace heed {

// The same events, logged too.
// {"event":"call failed","service":"heed.v1.Inference","method":"Embed","reason":"MODEL_ERROR","error":"...",
//  "request_id":"..."}
EdgeEvents Logged(EdgeEvents events);

}  // namespace heed

#endif  // HEED_SERVER_SERVICE_CALL_LOG_H_
