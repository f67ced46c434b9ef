#include "server/service/call_log.h"

#include <memory>
#include <string>
#include <utility>

#include "server/error.h"
#include "server/observation/codes.h"
#include "server/observation/log.h"

namespace heed {
namespace {

bool Ours(const absl::Status& status) {
  if (status.ok()) return false;
  return absl::IsInternal(status) || ReasonOf(status) == ErrorReason::kOutOfMemory;
}

void LogFailed(const EndedCall& call) {
  LogError("call failed", {{"service", call.method.service},
                           {"method", call.method.name},
                           {"reason", Name(ReasonOf(call.status))},
                           {"error", std::string(call.status.message())},
                           {"request_id", call.request_id}});
}

void LogTaskFailed(std::string_view what, std::string_view request_id) {
  LogFields fields = {{"error", what}};
  if (!request_id.empty()) fields["request_id"] = request_id;
  LogError("task failed", fields);
}

// A status that the transport made, and not we, has a code and no reason.
bool HasReason(const absl::Status& status) {
  return !status.ok() && CodeOf(ReasonOf(status)) == status.code();
}

// What is not known of a call is left out.
LogFields AccessLine(const EndedCall& call) {
  LogFields line = {{"request_id", call.request_id},
                    {"service", call.method.service},
                    {"method", call.method.name},
                    {"peer", call.peer}};
  if (!call.use.model.empty()) line["model"] = call.use.model;
  line["code"] = CodeName(call.status.code());
  if (HasReason(call.status)) line["reason"] = Name(ReasonOf(call.status));
  line["seconds"] = ToSeconds(call.took);
  if (call.use.queued) line["queued_seconds"] = ToSeconds(*call.use.queued);
  if (!call.use.model.empty()) {
    line["tokens_read"] = call.use.tokens_read;
    line["tokens_made"] = call.use.tokens_made;
  }
  line["bytes_in"] = call.use.bytes_in;
  line["bytes_out"] = call.use.bytes_out;
  return line;
}

void LogEnded(const EndedCall& call) {
  if (!call.peer.empty()) LogAlways("call", AccessLine(call));
}

}  // namespace

EdgeEvents Logged(EdgeEvents events) {
  EdgeEvents both = events;
  const auto limit = std::make_shared<LogLimit>();
  both.handled = [limit, counted = events.handled](const EndedCall& call) {
    if (counted) counted(call);
    if (Ours(call.status) && limit->Lets()) LogFailed(call);
  };
  both.failed = [limit, counted = events.failed](std::string_view what, std::string_view request_id) {
    if (counted) counted(what, request_id);
    if (limit->Lets()) LogTaskFailed(what, request_id);
  };
  return both;
}

EdgeEvents WithAccessLog(EdgeEvents events) {
  EdgeEvents both = events;
  both.handled = [handled = events.handled](const EndedCall& call) {
    if (handled) handled(call);
    LogEnded(call);
  };
  both.unknown = LogEnded;
  both.peers = true;
  return both;
}

}  // namespace heed
