#include "server/service/call_log.h"

#include <memory>
#include <string>
#include <utility>

#include "server/error.h"
#include "server/observation/log.h"

namespace heed {
namespace {

bool Ours(const absl::Status& status) {
  if (status.ok()) return false;
  return absl::IsInternal(status) || ReasonOf(status) == ErrorReason::kOutOfMemory;
}

void Log(const Method& method, const absl::Status& status, std::string_view request_id) {
  LogError("call failed", {{"service", method.service},
                           {"method", method.name},
                           {"reason", Name(ReasonOf(status))},
                           {"error", std::string(status.message())},
                           {"request_id", request_id}});
}

}  // namespace

EdgeEvents Logged(EdgeEvents events) {
  EdgeEvents both = events;
  const auto limit = std::make_shared<LogLimit>();
  both.handled = [limit, counted = events.handled](const Method& method, const absl::Status& status,
                                                   Duration took, std::string_view request_id) {
    if (counted) counted(method, status, took, request_id);
    if (Ours(status) && limit->Lets()) Log(method, status, request_id);
  };
  both.failed = [limit, counted = events.failed](std::string_view what) {
    if (counted) counted(what);
    if (limit->Lets()) LogError("task failed", {{"error", what}});
  };
  return both;
}

}  // namespace heed
