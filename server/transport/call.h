// What every call has, whether one message answers it or a stream: a way through the edge, a deadline, a
// request id, one end, and a client that may go or stop reading.
//
//   Begin() -> edge.Enter(), Open() on the edge's intake -> ... -> End() -> OnDone(): edge.Leave()
#ifndef HEED_SERVER_TRANSPORT_CALL_H_
#define HEED_SERVER_TRANSPORT_CALL_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"
#include "server/call_record.h"
#include "server/clock.h"
#include "server/edge.h"
#include "server/tokens.h"
#include "server/trace.h"
#include "server/transport/request_id.h"

namespace heed {

// gRPC holds it from Begin() to OnDone(), others in shared_ptr for as long as they may call it. What any
// virtual below throws ends the call, never the process.
class Call : public Stallable, public std::enable_shared_from_this<Call> {
 public:
  Call(const Call&) = delete;

  // Enters the edge and Open()s on its intake (health: at once), or refuses, as it does whoever may not call.
  // Once, right after making it.
  void Begin();
  void EndIfStalledSince(Time time) final;

  Time arrival() const { return arrival_; }
  Time deadline() const { return deadline_; }
  const std::string& request_id() const { return id_.text; }
  CallRecord& record() { return record_; }                        // for whoever does its work to add to
  const Rights* rights() const { return rights_.get(); }          // of who calls, from Begin() on; null: all
  const std::shared_ptr<Trace>& trace() const { return trace_; }  // null: it has none

 protected:
  Call(Edge* edge, const Method& method, grpc::CallbackServerContext* context,
       const grpc::ByteBuffer& request);

  // Reads the request and starts the work; an error is the call's end.
  virtual absl::Status Open() = 0;
  // The client has gone: stop the work, which at the deadline stops by itself. Any thread, perhaps before
  // Open().
  virtual void ClientGone(bool at_deadline) = 0;
  // The reactor's Finish().
  virtual void Send(const grpc::Status& end) = 0;
  // The last call.
  virtual void Closed() {}

  // Ends the call; the first end counts. Any thread.
  void End(const absl::Status& status) {
    End(status, [] {});
  }
  // `prepare` is called before it is sent, by the end that counts; it throws nothing.
  void End(const absl::Status& status, absl::FunctionRef<void()> prepare);
  bool ended() const;
  // Does a part of the call's work; what it throws ends the call, and the work.
  void Do(absl::FunctionRef<void()> part);

  void Writing(bool writing);    // a message is on its way to the client
  void Sent(size_t bytes);       // a message of the answer, to be counted
  absl::Status WhyGone() const;  // what a call whose client has gone ends with

  // gRPC's reactions.
  void Cancelled();
  void Done();

  Edge& edge() const { return *edge_; }

 private:
  absl::Status FindRights();
  bool Claim(const absl::Status& status);
  void TellId(bool answered);
  absl::Status Stalled() const;
  absl::Status Outcome() const;
  void TraceWrite(Time end) const;  // of what is on its way; mutex_ is held

  Edge* const edge_;
  const Method method_;
  const Time arrival_, deadline_;
  const RequestId id_;
  const std::string peer_;  // taken at the beginning: gRPC knows no peer of a call that was cancelled
  const std::shared_ptr<Trace> trace_;          // null: none
  grpc::CallbackServerContext* const context_;  // until Done()
  std::shared_ptr<Call> self_;                  // gRPC's hold on it, until Done()
  CallRecord record_;
  std::shared_ptr<const Rights> rights_;

  mutable std::mutex mutex_;  // guards the next five; never held while gRPC is called
  bool id_told_ = false;
  bool ended_ = false;
  bool stalled_ = false;  // and cut off
  absl::Status outcome_;
  std::optional<Time> writing_since_;

  std::mutex alive_mutex_;  // held while the context is used from outside; Done() takes it
  bool alive_ = true;       // guarded by alive_mutex_
};

// A call that is a reactor of gRPC's.
template <typename Reactor>
class CallOf : public Reactor, public Call {
 public:
  void OnCancel() final { Cancelled(); }
  void OnDone() final { Done(); }

 protected:
  using Call::Call;

 private:
  void Send(const grpc::Status& end) final { this->Finish(end); }
};

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_CALL_H_
