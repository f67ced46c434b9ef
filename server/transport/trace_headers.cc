#include "server/transport/trace_headers.h"

namespace heed {

TraceHeaders TraceHeadersOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  TraceHeaders headers;
  if (metadata.count("traceparent") == 1) {
    const auto& parent = metadata.find("traceparent")->second;
    headers.parent.assign(parent.data(), parent.size());
  }
  const auto [begin, end] = metadata.equal_range("tracestate");
  for (auto header = begin; header != end; ++header) {
    if (!headers.state.empty()) headers.state += ',';
    headers.state.append(header->second.data(), header->second.size());
  }
  return headers;
}

}  // namespace heed
