#include "server/trace.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "server/caught.h"
#include "server/error.h"

namespace heed {
namespace {

// A trace is worth no call: without memory it lacks a step.
void Try(absl::FunctionRef<void()> body) {
  const auto done = [&] {
    body();
    return absl::OkStatus();
  };
  Caught("no trace", done, nullptr).IgnoreError();
}

void Merge(const TraceStep& next, TraceStep* step) {
  step->end = std::max(step->end, next.end);
  if (step->input != next.input) step->input = -1;
  step->failed |= next.failed;
  step->prompt &= next.prompt;
  step->tokens += next.tokens;
  step->batch_tokens += next.batch_tokens;
  step->batch_inputs += next.batch_inputs;
  step->merged += next.merged;
}

}  // namespace

void Trace::Add(const TraceStep& step) {
  std::lock_guard lock(mutex_);
  if (ended_) return;
  if (counts_[step.kind] == kMostSteps) return Merge(step, &call_.steps[last_[step.kind]]);
  Try([&] {
    call_.steps.push_back(step);
    ++counts_[step.kind];
    last_[step.kind] = call_.steps.size() - 1;
  });
}

TracedCall Trace::End(Duration took, const absl::Status& status, std::string_view request_id,
                      const CallUse& use) {
  std::lock_guard lock(mutex_);
  ended_ = true;
  call_.ended = call_.arrival + took;
  call_.code = status.code();
  if (!status.ok()) call_.reason = Name(ReasonOf(status));
  call_.tokens_read = use.tokens_read;
  call_.tokens_made = use.tokens_made;
  Try([&] {
    call_.request_id = request_id;
    call_.model = use.model;
  });
  return std::move(call_);
}

}  // namespace heed
