#include "server/transport/stream_call.h"

#include <utility>

#include "engine/base/status.h"

namespace heed {

StreamCall::StreamCall(Edge* edge, const Method& method, grpc::CallbackServerContext* context,
                       const grpc::ByteBuffer* request)
    : CallOf(edge, method, context, *request), request_(*request) {}

absl::Status StreamCall::Open() {
  RETURN_IF_ERROR(Open(request_));
  Step();
  return absl::OkStatus();
}

void StreamCall::Wake() {
  {
    std::lock_guard lock(step_mutex_);
    again_ = true;
    if (busy_) return;
    busy_ = true;
  }
  auto step = [self = shared_from_this(), this] { Step(); };
  const absl::Status given = edge().Try([&] { edge().streams().Run(step); }, request_id());
  if (!given.ok()) step();  // no memory for a task: right here
}

void StreamCall::Step() {
  Do([this] {
    while (StepOnce()) {
    }
  });
}

// False when others go on: a message is on its way, the call has ended, or there is nothing to send yet.
// Busy stays true after an end: nobody goes on.
bool StreamCall::StepOnce() {
  bool gone;
  {
    std::lock_guard lock(step_mutex_);
    again_ = false;
    gone = cancelled_;
  }
  if (gone) return End(WhyGone()), false;
  Next next = Take();
  if (next.message) {
    message_ = *std::move(next.message);
    Writing(true);
    StartWrite(&message_);  // busy until OnWriteDone()
    return false;
  }
  if (next.end) return End(*next.end), false;
  std::lock_guard lock(step_mutex_);
  busy_ = again_ || cancelled_;
  return busy_;
}

void StreamCall::OnWriteDone(bool ok) {
  Writing(false);
  ok ? Sent(message_.Length()) : Cancelled();
  Step();
}

void StreamCall::ClientGone(bool at_deadline) {
  {
    std::lock_guard lock(step_mutex_);
    cancelled_ = true;
  }
  (void)edge().Try([&] { Abandon(at_deadline); }, request_id());
  Wake();
}

}  // namespace heed
