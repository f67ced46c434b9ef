#include "server/transport/stream_call.h"

#include <utility>

namespace heed {

StreamCall::StreamCall(Edge* edge, const Method& method, grpc::CallbackServerContext* context,
                       const grpc::ByteBuffer* request)
    : edge_(edge),
      method_(method),
      arrival_(edge->clock().Now()),
      deadline_(DeadlineOf(*context, arrival_, edge->longest_call())),
      context_(context),
      request_(*request) {}

void StreamCall::Begin() {
  self_ = shared_from_this();
  if (absl::Status status = edge_->Enter(method_); !status.ok()) return End(status);
  edge_->Track(weak_from_this());
  edge_->intake().Run([self = self_] {
    if (absl::Status status = self->Open(self->request_); !status.ok()) return self->End(status);
    self->Step();
  });
}

void StreamCall::Wake() {
  {
    std::lock_guard lock(mutex_);
    again_ = true;
    if (busy_) return;
    busy_ = true;
  }
  edge_->streams().Run([self = shared_from_this()] { self->Step(); });
}

void StreamCall::Step() {
  while (true) {
    {
      std::lock_guard lock(mutex_);
      again_ = false;
      if (cancelled_) break;
    }
    Next next = Take();
    if (next.message) {
      message_ = *std::move(next.message);
      {
        std::lock_guard lock(mutex_);
        writing_since_ = edge_->clock().Now();
      }
      return StartWrite(&message_);  // busy until OnWriteDone()
    }
    if (next.end) return End(*next.end);
    std::lock_guard lock(mutex_);
    busy_ = again_ || cancelled_;
    if (!busy_) return;
  }
  End(Gone());
}

// Busy stays true: nobody goes on after this.
void StreamCall::End(const absl::Status& status) {
  outcome_ = status;
  AddHint(status, *context_);
  Finish(ToGrpc(status));
}

void StreamCall::OnWriteDone(bool ok) {
  {
    std::lock_guard lock(mutex_);
    writing_since_.reset();
  }
  if (!ok) Cancel();
  Step();
}

void StreamCall::OnCancel() {
  Cancel();
  Wake();
}

void StreamCall::Cancel() {
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  Abandon(/*at_deadline=*/absl::IsDeadlineExceeded(Gone()));
}

void StreamCall::EndIfStalledSince(Time time) {
  {
    std::lock_guard lock(mutex_);
    if (!writing_since_ || *writing_since_ > time) return;
  }
  std::lock_guard lock(alive_mutex_);
  if (alive_) context_->TryCancel();  // OnCancel() and OnWriteDone(false) follow
}

void StreamCall::OnDone() {
  {
    std::lock_guard lock(alive_mutex_);
    alive_ = false;
  }
  edge_->Leave(method_, outcome_, edge_->clock().Now() - arrival_);
  Closed();
  self_.reset();
}

}  // namespace heed
