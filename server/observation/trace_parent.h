// The header `traceparent`, as W3C's Trace Context (level 1) has it: version, trace, the caller's span,
// flags.
//
//   00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
#ifndef HEED_SERVER_OBSERVATION_TRACE_PARENT_H_
#define HEED_SERVER_OBSERVATION_TRACE_PARENT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace heed {

struct TraceParent {
  std::array<uint8_t, 16> trace_id{};
  std::array<uint8_t, 8> span_id{};
  bool sampled = false;  // the caller keeps this trace
};

// Null for whatever is not of that form: lower-case hex, version 00 of exactly this length, later ones but ff
// perhaps with more after another '-', no id all zeros. Whoever gets null begins a trace of its own.
std::optional<TraceParent> ParseTraceParent(std::string_view header);

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_TRACE_PARENT_H_
