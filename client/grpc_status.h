// gRPC's outcomes as ours: the only place where grpc::Status becomes absl::Status.
#ifndef HEED_CLIENT_GRPC_STATUS_H_
#define HEED_CLIENT_GRPC_STATUS_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace grpc {
class ClientContext;
class Status;
}  // namespace grpc

namespace heed {

// The same code and message; the codes of the two are the same numbers. A code that neither knows becomes
// UNKNOWN.
absl::Status FromGrpc(const grpc::Status& status);

// How long the server asks to wait before the call is tried again: its `grpc-retry-pushback-ms` trailer.
// Empty if there is none, if it is no number, and if it is negative, which says "do not try again". For a
// call that has ended.
std::optional<absl::Duration> RetryAfter(const grpc::ClientContext& context);

}  // namespace heed

#endif  // HEED_CLIENT_GRPC_STATUS_H_
