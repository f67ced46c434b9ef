// A status's code as gRPC's Go and Java middlewares write it in `grpc_code`.
#ifndef HEED_SERVER_OBSERVATION_CODES_H_
#define HEED_SERVER_OBSERVATION_CODES_H_

#include <string>

#include "absl/status/status.h"

namespace heed {

inline constexpr const char* kCodeNames[] = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

inline std::string CodeName(absl::StatusCode code) { return kCodeNames[static_cast<size_t>(code)]; }

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_CODES_H_
