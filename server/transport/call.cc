#include "server/transport/call.h"

#include <utility>

#include "engine/base/status.h"
#include "grpc/grpc.h"
#include "server/error.h"
#include "server/transport/authorization.h"
#include "server/transport/peer.h"
#include "server/transport/trace_headers.h"
#include "server/transport/wire.h"

namespace heed {

Call::Call(Edge* edge, const Method& method, grpc::CallbackServerContext* context,
           const grpc::ByteBuffer& request)
    : edge_(edge),
      method_(method),
      arrival_(edge->clock().Now()),
      deadline_(DeadlineOf(*context, arrival_, edge->longest_call())),
      id_(RequestIdOf(*context)),
      peer_(edge->peers() ? PeerOf(*context) : ""),
      trace_(edge->traces() ? edge->TraceOf(method, arrival_, TraceHeadersOf(*context)) : nullptr),
      context_(context) {
  record_.Add({.bytes_in = static_cast<int64_t>(request.Length())});
}

void Call::Begin() {
  self_ = shared_from_this();
  absl::Status status = edge_->Enter(method_);
  if (status.ok()) status = FindRights();
  if (status.ok()) status = id_.status;
  if (!status.ok()) return End(status);
  Do([this] {
    edge_->Track(weak_from_this());
    auto open = [self = self_] {
      self->Do([&self] {
        if (absl::Status status = self->Open(); !status.ok()) self->End(status);
      });
    };
    method_.health ? open() : edge_->intake().Run(std::move(open));
  });
}

absl::Status Call::FindRights() {
  if (method_.health || edge_->tokens() == nullptr) return absl::OkStatus();
  absl::Status found;
  const absl::Status thrown = edge_->Try([&] {
    auto rights = Authorize(context_->client_metadata(), *edge_->tokens()->Now(),
                            Cat(method_.service, "/", method_.name));
    found = rights.status();
    if (rights.ok()) rights_ = *std::move(rights);
  });
  return thrown.ok() ? found : thrown;
}

void Call::Do(absl::FunctionRef<void()> part) {
  const absl::Status thrown = edge_->Try(part, id_.text);
  if (thrown.ok()) return;
  (void)edge_->Try([this] { ClientGone(/*at_deadline=*/false); }, id_.text);
  End(thrown);
}

void Call::End(const absl::Status& status, absl::FunctionRef<void()> prepare) {
  grpc::Status told(static_cast<grpc::StatusCode>(status.code()), "");
  (void)edge_->Try([&] { told = ToGrpc(status, id_.text); }, id_.text);
  if (!Claim(status)) return;
  TellId(status.ok());
  (void)edge_->Try([&] { AddPushback(status, *context_); }, id_.text);
  prepare();
  Send(told);
}

// In the headers of an answer. Who gets no answer gets no headers either: gRPC's clients try a call again
// only while they have seen none, so then it is among the trailers.
void Call::TellId(bool answered) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(id_told_, true)) return;
  }
  (void)edge_->Try(
      [&] {
        answered ? context_->AddInitialMetadata(kRequestIdHeader, id_.text)
                 : context_->AddTrailingMetadata(kRequestIdHeader, id_.text);
      },
      id_.text);
}

bool Call::Claim(const absl::Status& status) {
  std::lock_guard lock(mutex_);
  if (ended_) return false;
  ended_ = true;
  outcome_ = status;
  writing_since_ = edge_->clock().Now();
  return true;
}

bool Call::ended() const {
  std::lock_guard lock(mutex_);
  return ended_;
}

// A call that was taken back before its request had come was opened with an empty one, and found malformed:
// nobody was told so.
absl::Status Call::Outcome() const {
  std::lock_guard lock(mutex_);
  if (stalled_) return Stalled();
  const bool malformed = !outcome_.ok() && ReasonOf(outcome_) == ErrorReason::kMalformedRequest;
  return malformed && context_->IsCancelled() ? Gone(deadline_, edge_->clock().Now()) : outcome_;
}

void Call::Writing(bool writing) {
  if (writing) TellId(/*answered=*/true);
  std::lock_guard lock(mutex_);
  if (!writing && trace_) TraceWrite(edge_->clock().Now());
  writing_since_ = writing ? std::optional(edge_->clock().Now()) : std::nullopt;
}

void Call::TraceWrite(Time end) const {
  if (writing_since_) trace_->Add({.kind = TraceStep::kWrite, .begin = *writing_since_, .end = end});
}

void Call::Sent(size_t bytes) {
  record_.Add({.bytes_out = static_cast<int64_t>(bytes)});
  edge_->Sent(method_);
}

absl::Status Call::Stalled() const {
  return Error(ErrorReason::kClientStalled, "the client has not taken a message for ",
               ToSeconds(edge_->stall()), " s");
}

absl::Status Call::WhyGone() const {
  {
    std::lock_guard lock(mutex_);
    if (stalled_) return Stalled();
  }
  return Gone(deadline_, edge_->clock().Now());
}

void Call::EndIfStalledSince(Time time) {
  {
    std::lock_guard lock(mutex_);
    if (stalled_ || !writing_since_ || *writing_since_ > time) return;
    stalled_ = true;
  }
  const std::string why(Stalled().message());
  std::lock_guard lock(alive_mutex_);  // as TryCancel(), which tells no reason; Cancelled() follows
  if (alive_) grpc_call_cancel_with_status(context_->c_call(), GRPC_STATUS_CANCELLED, why.c_str(), nullptr);
}

void Call::Cancelled() {
  (void)edge_->Try([this] { ClientGone(absl::IsDeadlineExceeded(WhyGone())); }, id_.text);
}

void Call::Done() {
  {
    std::lock_guard lock(alive_mutex_);
    alive_ = false;
  }
  edge_->Untrack(weak_from_this());
  (void)edge_->Try([this] { Closed(); }, id_.text);
  const absl::Status outcome = Outcome();
  const Time now = edge_->clock().Now();
  if (trace_) {
    std::lock_guard lock(mutex_);
    TraceWrite(now);
  }
  edge_->Leave({.method = method_,
                .status = outcome,
                .took = now - arrival_,
                .request_id = id_.text,
                .use = record_.use(),
                .peer = peer_,
                .trace = trace_.get()});
  const auto last = std::move(self_);
}

}  // namespace heed
