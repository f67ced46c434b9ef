// Which calls are traced, and how their traces leave the server: when a call has ended it goes into a queue
// of bounded size, from which one thread exports some at a time. Nobody waits for that thread: what does not
// fit, and what cannot be exported, is lost and counted.
#ifndef HEED_SERVER_OBSERVATION_TRACES_H_
#define HEED_SERVER_OBSERVATION_TRACES_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "server/clock.h"
#include "server/edge.h"
#include "server/trace.h"

namespace heed {

struct TracesOptions {
  double sampling_ratio = 1;  // of the calls whose caller says nothing; else it is as the caller says
  int64_t most_spans = 8192;  // in the queue and being exported
  int64_t batch_spans = 512;  // of an export, the last call's all
  Duration delay = std::chrono::seconds(1);  // that a call waits for others
};

// What became of spans, since the start.
struct SpanCounts {
  int64_t exported = 0;
  int64_t failed = 0;   // the collector did not take them
  int64_t dropped = 0;  // the queue was full, or the server ended first
};

// Thread-safe.
class Traces {
 public:
  // Tells the calls to a collector; false if it has not taken them. It may block for some seconds, and is
  // called by one thread.
  using Export = std::function<bool(std::span<const TracedCall> calls)>;

  Traces(const TracesOptions& options, Export export_calls);
  ~Traces();  // what is not yet exported is dropped; Close() comes before

  // A call begins: null if it is not traced.
  std::shared_ptr<Trace> Begin(const Method& method, Time arrival, const TraceHeaders& headers) const;
  // It has ended. Never blocks.
  void Add(TracedCall call);

  // Exports what is left: no export begins when this time is over. Calls that end later are dropped.
  void Close(Duration most = std::chrono::seconds(1));

  SpanCounts counts() const;

 private:
  void Loop();
  // Exports the first of them, as many as go together, or drops them when it is too late. How many.
  size_t SendSome(std::span<const TracedCall> calls);
  bool Send(std::span<const TracedCall> calls) const;  // false also when it throws

  const TracesOptions options_;
  const Export export_;

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<TracedCall> queue_;
  int64_t held_ = 0;     // spans in the queue and being exported
  int64_t waiting_ = 0;  // those in the queue
  bool closed_ = false;
  bool finished_ = false;  // the thread has nothing left
  Time until_ = kNever;    // no export begins after it
  SpanCounts counts_;
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_TRACES_H_
