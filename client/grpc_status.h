// gRPC's outcomes as ours, with what a Heed server says beside code and message: the only place where
// grpc::Status becomes absl::Status.
//
//   if (const ErrorDetails why = DetailsOf(status); why.reason == "QUEUE_FULL") Wait(*why.retry_delay);
#ifndef HEED_CLIENT_GRPC_STATUS_H_
#define HEED_CLIENT_GRPC_STATUS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "heed/v1/common.pb.h"

namespace grpc {
class ClientContext;
class Status;
}  // namespace grpc

namespace heed {

// What an error tells programs. Empty is what the server has not said.
struct ErrorDetails {
  std::string reason;                         // "QUEUE_FULL": common.proto lists them
  std::string field;                          // that is wrong: "inputs[2].text"
  std::optional<absl::Duration> retry_delay;  // after which trying again may help
  std::string request_id;                     // under which the server's log has the call
};

// Of a status that one of the functions below has made; empty of any other.
ErrorDetails DetailsOf(const absl::Status& status);

// The same code and message, and the details: a google.rpc.Status in grpc-status-details-bin, the metadata
// x-request-id. A code that neither knows becomes UNKNOWN. For a call that has ended.
absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& context);

// One input's error, as a call's would be.
absl::Status FromError(const v1::Error& error);

// How long the server asks to wait before the call is tried again: its trailer `grpc-retry-pushback-ms`,
// which says "do not try again" where it is negative or no number; without it RetryInfo. For a call that has
// ended.
std::optional<absl::Duration> RetryDelay(const grpc::Status& status, const grpc::ClientContext& context);

}  // namespace heed

#endif  // HEED_CLIENT_GRPC_STATUS_H_
