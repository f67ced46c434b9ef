// Between bytes and messages, and between our outcomes and gRPC's. Methods are raw: what does not parse is
// the caller's INVALID_ARGUMENT, which gRPC 1.51 would call UNIMPLEMENTED.
#ifndef HEED_SERVER_TRANSPORT_WIRE_H_
#define HEED_SERVER_TRANSPORT_WIRE_H_

#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"
#include "server/clock.h"

namespace heed {

// INVALID_ARGUMENT for bytes that are no such message, and where there is no message at all. A text that is
// not UTF-8 is named by its field.
absl::Status Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* message);
grpc::ByteBuffer Serialize(const google::protobuf::Message& message);

// The field stands before the message. The details are a google.rpc.Status, which gRPC sends as the trailer
// grpc-status-details-bin: ErrorInfo; BadRequest, RetryInfo and RequestInfo as far as these are known. Texts
// are cut to what fits the headers that clients take.
grpc::Status ToGrpc(const absl::Status& status, std::string_view request_id);

// The call's deadline on the steady clock, `longest` from `now` at most.
Time DeadlineOf(const grpc::CallbackServerContext& context, Time now, Duration longest);

// Why a call whose client has gone at `now` ends: gRPC takes a client away at its deadline too, on a clock of
// its own, so a little before that counts.
absl::Status Gone(Time deadline, Time now);

// Puts when to try again into the trailers of a call that ends so: grpc-retry-pushback-ms.
void AddPushback(const absl::Status& status, grpc::CallbackServerContext& context);

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_WIRE_H_
