#include "server/services/wire.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "absl/strings/cord.h"
#include "engine/base/status.h"
#include "grpc/support/time.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/proto_buffer_writer.h"

namespace heed {
namespace {

constexpr char kFieldPayload[] = "heed.field";
constexpr char kRetryPayload[] = "heed.retry";

}  // namespace

absl::Status Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* message) {
  grpc::ByteBuffer copy = bytes;  // shares the slices; the reader wants it mutable
  if (!copy.Valid()) return Invalid("the call has no ", message->GetTypeName(), " message");
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok() || !message->ParseFromZeroCopyStream(&reader)) {
    return Invalid("the call's bytes are no ", message->GetTypeName(), " message");
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

absl::Status AtField(absl::Status status, std::string_view field) {
  if (!status.ok()) status.SetPayload(kFieldPayload, absl::Cord(std::string(field)));
  return status;
}

std::string FieldOf(const absl::Status& status) {
  return std::string(status.GetPayload(kFieldPayload).value_or(absl::Cord()));
}

v1::Error ToError(const absl::Status& status) {
  v1::Error error;
  error.set_code(static_cast<int>(status.code()));
  error.set_field(FieldOf(status));
  error.set_message(std::string(status.message()));
  return error;
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
  if (now + kClocksDiffer >= deadline) return absl::DeadlineExceededError("the deadline has passed");
  return absl::CancelledError("the client has gone");
}

absl::Status RetryAfter(absl::Status status, Duration wait) {
  const int64_t milliseconds = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  status.SetPayload(kRetryPayload, absl::Cord(std::to_string(std::clamp<int64_t>(milliseconds, 1, 60'000))));
  return status;
}

void AddHint(const absl::Status& status, grpc::CallbackServerContext& context) {
  if (const auto milliseconds = status.GetPayload(kRetryPayload)) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms", std::string(*milliseconds));
  }
}

}  // namespace heed
