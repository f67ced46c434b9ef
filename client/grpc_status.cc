#include "client/grpc_status.h"

#include "absl/strings/numbers.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace heed {

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
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
