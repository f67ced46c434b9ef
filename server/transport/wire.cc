#include "server/transport/wire.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/util/time_util.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/support/time.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/proto_buffer_writer.h"
#include "server/error.h"
#include "server/transport/utf8.h"

namespace heed {
namespace {

constexpr char kDomain[] = "heed";
constexpr size_t kMaxField = 256, kMaxMessage = 1024;  // bytes

// Its beginning, of whole characters.
std::string Beginning(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  while (bytes > 0 && (text[bytes] & 0xC0) == 0x80) --bytes;
  return std::string(text.substr(0, bytes));
}

// Of bytes that do not parse.
absl::Status Malformed(const grpc::ByteBuffer& bytes, const google::protobuf::Message& message) {
  std::string flat;
  std::vector<grpc::Slice> slices;
  if (bytes.Dump(&slices).ok()) {
    for (const auto& slice : slices) flat.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  const std::string field = FieldNotUtf8(*message.GetDescriptor(), flat);
  if (!field.empty()) return AtField(Error(ErrorReason::kMalformedRequest, "it is not UTF-8"), field);
  return Error(ErrorReason::kMalformedRequest, "the call's bytes are no ", message.GetTypeName(), " message");
}

// Code and message are the call's, which client libraries check.
google::rpc::Status Details(const absl::Status& status, const grpc::Status& told,
                            std::string_view request_id) {
  google::rpc::Status details;
  details.set_code(told.error_code());
  details.set_message(told.error_message());
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(Name(ReasonOf(status))));
  info.set_domain(kDomain);
  for (const auto& [word, value] : FactsOf(status)) (*info.mutable_metadata())[word] = value;
  details.add_details()->PackFrom(info);
  if (const std::string field = FieldOf(status); !field.empty()) {
    google::rpc::BadRequest request;
    auto* violation = request.add_field_violations();
    violation->set_field(Beginning(field, kMaxField));
    violation->set_description(Beginning(std::string(status.message()), kMaxMessage));
    details.add_details()->PackFrom(request);
  }
  if (const auto delay = RetryDelayOf(status)) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() = google::protobuf::util::TimeUtil::NanosecondsToDuration(
        std::chrono::duration_cast<std::chrono::nanoseconds>(*delay).count());
    details.add_details()->PackFrom(retry);
  }
  google::rpc::RequestInfo request;
  request.set_request_id(std::string(request_id));
  details.add_details()->PackFrom(request);
  return details;
}

}  // namespace

absl::Status Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* message) {
  grpc::ByteBuffer copy = bytes;  // shares the slices; the reader wants it mutable
  if (!copy.Valid())
    return Error(ErrorReason::kMalformedRequest, "the call has no ", message->GetTypeName(), " message");
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok() || !message->ParseFromZeroCopyStream(&reader)) return Malformed(bytes, *message);
  return absl::OkStatus();
}

grpc::ByteBuffer Serialize(const google::protobuf::Message& message) {
  grpc::ByteBuffer bytes;
  bool owned = false;
  grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(message, &bytes, &owned);
  return bytes;
}

grpc::Status ToGrpc(const absl::Status& status, std::string_view request_id) {
  if (status.ok()) return grpc::Status::OK;
  const std::string field = Beginning(FieldOf(status), kMaxField);
  const std::string message = Beginning(std::string(status.message()), kMaxMessage);
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const grpc::Status told(code, field.empty() ? message : Cat(field, ": ", message));
  return {code, told.error_message(), Details(status, told, request_id).SerializeAsString()};
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

void AddPushback(const absl::Status& status, grpc::CallbackServerContext& context) {
  if (const auto delay = RetryDelayOf(status)) {
    const int64_t milliseconds = std::chrono::ceil<std::chrono::milliseconds>(*delay).count();
    context.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(milliseconds));
  }
}

}  // namespace heed
