#include "server/transport/wire.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "grpc/support/time.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/proto_buffer_writer.h"
#include "server/error.h"

namespace heed {
absl::Status Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* message) {
  grpc::ByteBuffer copy = bytes;  // shares the slices; the reader wants it mutable
  if (!copy.Valid())
    return Error(ErrorReason::kMalformedRequest, "the call has no ", message->GetTypeName(), " message");
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok() || !message->ParseFromZeroCopyStream(&reader)) {
    return Error(ErrorReason::kMalformedRequest, "the call's bytes are no ", message->GetTypeName(),
                 " message");
  }
  return absl::OkStatus();
}

grpc::ByteBuffer Serialize(const google::protobuf::Message& message) {
  grpc::ByteBuffer bytes;
  bool owned = false;
  grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(message, &bytes, &owned);
  return bytes;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string field = FieldOf(status);
  return {static_cast<grpc::StatusCode>(status.code()),
          field.empty() ? std::string(status.message()) : Cat(field, ": ", status.message())};
}

Time DeadlineOf(const grpc::CallbackServerContext& context, Time now, Duration longest) {
  const gpr_timespec deadline = context.raw_deadline();
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return now + longest;
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  const auto milliseconds = std::chrono::milliseconds(gpr_time_to_millis(left));
  return now + std::clamp<Duration>(milliseconds, Duration::zero(), longest);
}

absl::Status Gone(Time deadline, Time now) {
  constexpr Duration kClocksDiffer = std::chrono::milliseconds(10);
  if (now + kClocksDiffer >= deadline)
    return Error(ErrorReason::kDeadlineExceeded, "the deadline has passed");
  return Error(ErrorReason::kClientCancelled, "the client has gone");
}

void AddHint(const absl::Status& status, grpc::CallbackServerContext& context) {
  if (const auto delay = RetryDelayOf(status)) {
    const int64_t milliseconds = std::chrono::ceil<std::chrono::milliseconds>(*delay).count();
    context.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(milliseconds));
  }
}

}  // namespace heed
