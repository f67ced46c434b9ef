// Calls in the log, beside the metrics: those that failed for a reason of ours, and all of them where that is
// asked for. What clients do wrong is else counted and told to them only: it could fill the log at their
// will.
#ifndef HEED_SERVER_SERVICE_CALL_LOG_H_
#define HEED_SERVER_SERVICE_CALL_LOG_H_

#include "server/edge.h"

namespace heed {

// The same events, logged too.
// {"event":"call failed","service":"heed.v1.Inference","method":"Embed","reason":"MODEL_ERROR","error":"...",
//  "request_id":"..."}
EdgeEvents Logged(EdgeEvents events);

// The same events, with a line for each call that has ended, however it did; docs/operations.md says what is
// in it. Never anything that a client has written but its request id, whose form is checked.
// {"event":"call","request_id":"...","service":"heed.v1.Inference","method":"Classify",
//  "peer":"127.0.0.1:40126","model":"polarity","code":"OK","seconds":0.002,"queued_seconds":0.0001,
//  "tokens_read":7,"tokens_made":0,"bytes_in":45,"bytes_out":80}
EdgeEvents WithAccessLog(EdgeEvents events);

}  // namespace heed

#endif  // HEED_SERVER_SERVICE_CALL_LOG_H_
