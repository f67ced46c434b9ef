#include "client/grpc_status.h"

#include <cstdint>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace heed {
namespace {

constexpr char kPayload[] = "type.googleapis.com/google.rpc.Status";

absl::Duration FromMessage(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

void Read(const google::protobuf::Any& detail, ErrorDetails* details) {
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest request;
  google::rpc::RetryInfo retry;
  google::rpc::RequestInfo id;
  if (detail.UnpackTo(&info)) details->reason = info.reason();
  if (detail.UnpackTo(&request) && !request.field_violations().empty())
    details->field = request.field_violations(0).field();
  if (detail.UnpackTo(&retry)) details->retry_delay = FromMessage(retry.retry_delay());
  if (detail.UnpackTo(&id)) details->request_id = id.request_id();
}

ErrorDetails DetailsOf(const google::rpc::Status& status) {
  ErrorDetails details;
  for (const google::protobuf::Any& detail : status.details()) Read(detail, &details);
  return details;
}

google::rpc::Status Parse(const std::string& bytes) {
  google::rpc::Status status;
  if (!status.ParseFromString(bytes)) status.Clear();
  return status;
}

absl::Status WithPayload(absl::Status status, const google::rpc::Status& said) {
  if (!status.ok() && !said.details().empty())
    status.SetPayload(kPayload, absl::Cord(said.SerializeAsString()));
  return status;
}

// A server that fails before it answers says all metadata at the end.
std::string RequestId(const grpc::ClientContext& context) {
  for (const auto* metadata : {&context.GetServerInitialMetadata(), &context.GetServerTrailingMetadata()}) {
    const auto id = metadata->find("x-request-id");
    if (id != metadata->end()) return std::string(id->second.data(), id->second.size());
  }
  return "";
}

}  // namespace

ErrorDetails DetailsOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  return payload ? DetailsOf(Parse(std::string(*payload))) : ErrorDetails();
}

absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& context) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status said = Parse(status.error_details());
  if (DetailsOf(said).request_id.empty()) {
    google::rpc::RequestInfo id;
    id.set_request_id(RequestId(context));
    if (!id.request_id().empty()) said.add_details()->PackFrom(id);
  }
  return WithPayload({static_cast<absl::StatusCode>(status.error_code()), status.error_message()}, said);
}

absl::Status FromError(const v1::Error& error) {
  const auto code =
      error.code() == 0 ? absl::StatusCode::kUnknown : static_cast<absl::StatusCode>(error.code());
  google::rpc::Status said;
  google::rpc::ErrorInfo info;
  info.set_reason(error.reason());
  said.add_details()->PackFrom(info);
  google::rpc::BadRequest request;
  request.add_field_violations()->set_field(error.field());
  said.add_details()->PackFrom(request);
  google::rpc::RetryInfo retry;
  *retry.mutable_retry_delay() = error.retry_delay();
  if (error.has_retry_delay()) said.add_details()->PackFrom(retry);
  return WithPayload({code, error.message()}, said);
}

std::optional<absl::Duration> RetryDelay(const grpc::Status& status, const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto hint = trailers.find("grpc-retry-pushback-ms");
  if (hint == trailers.end()) return DetailsOf(Parse(status.error_details())).retry_delay;
  int64_t milliseconds = -1;
  if (!absl::SimpleAtoi(absl::string_view(hint->second.data(), hint->second.size()), &milliseconds))
    return std::nullopt;
  if (milliseconds < 0) return std::nullopt;
  return absl::Milliseconds(milliseconds);
}

}  // namespace heed
