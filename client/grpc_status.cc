#include "client/grpc_status.h"

#include "absl/strings/numbers.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace heed {

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = static_cast<int>(status.error_code());
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return {known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown, status.error_message()};
}

std::optional<absl::Duration> RetryAfter(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto hint = trailers.find("grpc-retry-pushback-ms");
  if (hint == trailers.end()) return std::nullopt;
  int64_t milliseconds = -1;
  if (!absl::SimpleAtoi(absl::string_view(hint->second.data(), hint->second.size()), &milliseconds))
    return std::nullopt;
  if (milliseconds < 0) return std::nullopt;
  return absl::Milliseconds(milliseconds);
}

}  // namespace heed
