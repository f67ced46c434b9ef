#include "server/service/traced_calls.h"

#include <utility>

#include "server/observation/otlp.h"

namespace heed {

std::unique_ptr<Traces> NewTraces(const config::v1::TracesConfig& config) {
  if (config.endpoint().empty()) return nullptr;
  return std::make_unique<Traces>(TracesOptions{.sampling_ratio = config.sampling_ratio()},
                                  NewOtlpExport(config.endpoint()));
}

EdgeEvents Traced(EdgeEvents events, Traces* traces) {
  if (traces == nullptr) return events;
  events.trace = [traces](const Method& method, Time arrival, const TraceHeaders& headers) {
    return traces->Begin(method, arrival, headers);
  };
  events.handled = [traces, handled = std::move(events.handled)](const EndedCall& call) {
    if (handled) handled(call);
    if (call.trace) traces->Add(call.trace->End(call.took, call.status, call.request_id, call.use));
  };
  return events;
}

}  // namespace heed
