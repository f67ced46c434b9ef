#include "server/observation/traces.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/log/check.h"
#include "server/caught.h"
#include "server/observation/log.h"
#include "server/observation/trace_parent.h"

namespace heed {
namespace {

constexpr size_t kMostState = 512;  // characters of a tracestate: as many as one is to be passed on with

std::array<uint8_t, 16> NewTraceId() {
  std::array<uint8_t, 16> id;
  CHECK_EQ(getentropy(id.data(), id.size()), 0);
  return id;
}

// Of a random id, where it lies between 0 and 1. Below a ratio, that share of all ids lies.
double PlaceOf(const std::array<uint8_t, 16>& id) {
  double place = 0;
  for (auto byte = id.rbegin(); byte != id.rbegin() + 6; ++byte) place = (place + *byte) / 256;
  return place;
}

int64_t UnixNanoseconds() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
}

}  // namespace

Traces::Traces(const TracesOptions& options, Export export_calls)
    : options_(options), export_(std::move(export_calls)), thread_([this] { Loop(); }) {}

Traces::~Traces() { Close(Duration::zero()); }

std::shared_ptr<Trace> Traces::Begin(const Method& method, Time arrival, const TraceHeaders& headers) const {
  const std::optional<TraceParent> parent = ParseTraceParent(headers.parent);
  if (parent && !parent->sampled) return nullptr;
  TraceContext context;
  if (parent) {
    context.trace_id = parent->trace_id;
    context.parent_id = parent->span_id;
    if (headers.state.size() <= kMostState) context.state = headers.state;
  } else {
    context.trace_id = NewTraceId();
    if (PlaceOf(context.trace_id) >= options_.sampling_ratio) return nullptr;
  }
  return std::make_shared<Trace>(TracedCall{.context = std::move(context),
                                            .service = method.service,
                                            .method = method.name,
                                            .arrival = arrival,
                                            .unix_nanoseconds = UnixNanoseconds()});
}

void Traces::Add(TracedCall call) {
  const int64_t spans = call.spans();
  std::lock_guard lock(mutex_);
  if (closed_ || held_ + spans > options_.most_spans) {
    counts_.dropped += spans;
    return;
  }
  queue_.push_back(std::move(call));
  held_ += spans;
  waiting_ += spans;
  if (queue_.size() == 1 || waiting_ >= options_.batch_spans) changed_.notify_all();
}

void Traces::Close(Duration most) {
  std::unique_lock lock(mutex_);
  closed_ = true;
  until_ = std::min(until_, Clock::Real().Now() + most);
  changed_.notify_all();
  changed_.wait(lock, [this] { return finished_; });
}

SpanCounts Traces::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

void Traces::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) break;
    changed_.wait_for(lock, options_.delay, [this] { return closed_ || waiting_ >= options_.batch_spans; });
    const std::vector<TracedCall> calls = std::exchange(queue_, {});
    const int64_t spans = std::exchange(waiting_, 0);
    lock.unlock();
    for (std::span<const TracedCall> left(calls); !left.empty();) left = left.subspan(SendSome(left));
    lock.lock();
    held_ -= spans;
  }
  finished_ = true;
  changed_.notify_all();
}

size_t Traces::SendSome(std::span<const TracedCall> calls) {
  size_t n = 0;
  int64_t spans = 0;
  while (n < calls.size() && spans < options_.batch_spans) spans += calls[n++].spans();
  std::unique_lock lock(mutex_);
  const bool late = Clock::Real().Now() >= until_;
  lock.unlock();
  const bool taken = !late && Send(calls.first(n));
  lock.lock();
  (late ? counts_.dropped : taken ? counts_.exported : counts_.failed) += spans;
  return n;
}

bool Traces::Send(std::span<const TracedCall> calls) const {
  bool taken = false;
  const auto send = [&] {
    taken = export_(calls);
    return absl::OkStatus();
  };
  const Failed failed = [](std::string_view what) { LogError("traces lost", {{"error", what}}); };
  return Caught("traces are lost", send, failed).ok() && taken;
}

}  // namespace heed
