#include "server/services/stream_call.h"

#include <utility>

#include "server/services/wire.h"

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
  if (absl::Status status = edge_->Enter(method_); !status.ok()) return End(status, /*with_message=*/false);
  edge_->Track(weak_from_this());
  edge_->intake().Run([self = self_] {
    if (absl::Status status = self->Open(self->request_); !status.ok())
      return self->End(status, /*with_message=*/false);
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
  edge_->answers().Run([self = shared_from_this()] { self->Step(); });
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
      if (next.end) return End(*next.end, /*with_message=*/true);
      {
        std::lock_guard lock(mutex_);
        writing_since_ = edge_->clock().Now();
      }
      return StartWrite(&message_);  // busy until OnWriteDone()
    }
    if (next.end) return End(*next.end, /*with_message=*/false);
    std::lock_guard lock(mutex_);
    busy_ = again_ || cancelled_;
    if (!busy_) return;
  }
  End(absl::CancelledError("the client has gone"), /*with_message=*/false);
}

// Busy stays true: nobody goes on after this.
void StreamCall::End(const absl::Status& status, bool with_message) {
  outcome_ = status;
  if (with_message && status.ok())
    return StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
  AddHint(status, *context_);
  Finish(ToGrpc(status));
}

void StreamCall::OnWriteDone(bool ok) {
  {
    std::lock_guard lock(mutex_);
    writing_since_.reset();
    if (!ok) cancelled_ = true;
  }
  if (!ok) Abandon();
  Step();
}

void StreamCall::OnCancel() {
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  Abandon();
  Wake();
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
  edge_->Leave(method_, outcome_);
  Closed();
  self_.reset();
}

}  // namespace heed
