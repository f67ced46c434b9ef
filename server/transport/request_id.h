// Which call it was: `x-request-id`, the caller's or ours, in an answer's headers, an error's trailers, and
// logs.
#ifndef HEED_SERVER_TRANSPORT_REQUEST_ID_H_
#define HEED_SERVER_TRANSPORT_REQUEST_ID_H_

#include <string>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"

namespace heed {

inline constexpr char kRequestIdHeader[] = "x-request-id";

struct RequestId {
  std::string text;
  absl::Status status;  // INVALID_ARGUMENT if the caller's has another form; then `text` is ours
};

// The caller's [A-Za-z0-9._:-]{1,128}; 16 random bytes in hex where there is none.
RequestId RequestIdOf(const grpc::CallbackServerContext& context);

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_REQUEST_ID_H_
