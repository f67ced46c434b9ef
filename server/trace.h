// What happened to one call, for whoever follows it through several servers: written down in the server's own
// words and times while it happens, and made into spans when the call is over. A call that is not traced has
// none of this: all that it costs then is to look that a pointer is null.
#ifndef HEED_SERVER_TRACE_H_
#define HEED_SERVER_TRACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/call_record.h"
#include "server/clock.h"

namespace heed {

// A part of a call that took time.
struct TraceStep {
  enum Kind {
    kTokenize,  // an input became rows that a model reads, and a job
    kQueue,     // from its submission to its first pass
    kPass,      // a pass that it had a part in
    kWrite,     // a message of the answer, or its end, on its way to the client
  };
  static constexpr int kKinds = kWrite + 1;

  Kind kind{};
  Time begin{}, end{};
  int input = -1;  // of the request, from 0; -1: of none, or of several
  bool failed = false;
  // Of a pass:
  bool prompt = false;       // rows of the input's first phase, not of its decoding
  int64_t tokens = 0;        // rows of the input
  int64_t batch_tokens = 0;  // rows of all that shared the pass
  int64_t batch_inputs = 0;  // inputs that shared it, this one among them

  int64_t merged = 1;  // so many steps, from the first's begin to the last's end; the numbers are their sums
};

// Which trace a call belongs to, as W3C's Trace Context has it.
struct TraceContext {
  std::array<uint8_t, 16> trace_id{};
  std::optional<std::array<uint8_t, 8>> parent_id;  // the caller's span, if it said one
  std::string state;                                // the caller's tracestate
};

// A call that has ended. Nothing in it is a client's text: its words are ours, but for the request id and the
// trace state, which are short and have a form.
struct TracedCall {
  TraceContext context;
  std::string_view service, method;  // "heed.v1.Inference", "Classify"
  Time arrival{}, ended{};
  int64_t unix_nanoseconds = 0;  // of the arrival, since 1970
  std::string request_id;
  std::string model;                         // that was asked; empty: none
  absl::StatusCode code{};                   // that the client got
  std::string_view reason;                   // unless that is OK: "QUEUE_FULL"
  int64_t tokens_read = 0, tokens_made = 0;  // as in CallUse
  std::vector<TraceStep> steps;

  int64_t spans() const { return 1 + static_cast<int64_t>(steps.size()); }
};

// A traced call while it goes on. Thread-safe; throws nothing.
class Trace {
 public:
  // Steps of a kind that are told one by one; of those that follow, the last tells all together.
  static constexpr int64_t kMostSteps = 128;

  explicit Trace(TracedCall call) : call_(std::move(call)) {}

  void Add(const TraceStep& step);

  // The call as it was, so long after its arrival. Once; what comes afterwards is not kept.
  TracedCall End(Duration took, const absl::Status& status, std::string_view request_id, const CallUse& use);

 private:
  std::mutex mutex_;  // guards the rest
  TracedCall call_;
  std::array<int64_t, TraceStep::kKinds> counts_{};
  std::array<size_t, TraceStep::kKinds> last_{};  // of each kind, its place among the steps
  bool ended_ = false;
};

// What a caller says of the trace that it is in: the headers' text, unchecked; empty where there is none.
struct TraceHeaders {
  std::string parent;  // "traceparent"; empty also if it came more than once
  std::string state;   // "tracestate"
};

}  // namespace heed

#endif  // HEED_SERVER_TRACE_H_
