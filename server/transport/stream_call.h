// A call that is answered with a stream. At most one message is on its way; the next is made when that has
// gone, so a slow client gets fewer and larger ones, and nothing piles up.
#ifndef HEED_SERVER_TRANSPORT_STREAM_CALL_H_
#define HEED_SERVER_TRANSPORT_STREAM_CALL_H_

#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/clock.h"
#include "server/edge.h"
#include "server/transport/wire.h"

namespace heed {

// gRPC holds it from Begin() to OnDone(), others in shared_ptr for as long as they may call it.
class StreamCall : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                   public Stallable,
                   public std::enable_shared_from_this<StreamCall> {
 public:
  StreamCall(Edge* edge, const Method& method, grpc::CallbackServerContext* context,
             const grpc::ByteBuffer* request);

  // Enters the edge and Open()s on its intake, or refuses. Once, right after making it.
  void Begin();
  // There may be something to send. Any thread, never blocks; afterwards too, without effect.
  void Wake();
  void EndIfStalledSince(Time time) final;

  void OnWriteDone(bool ok) final;
  void OnCancel() final;
  void OnDone() final;

 protected:
  // What comes next: a message, the end, or nothing yet.
  struct Next {
    std::optional<grpc::ByteBuffer> message;
    std::optional<absl::Status> end;
  };

  // Reads the request and starts the work; an error is the call's end.
  virtual absl::Status Open(const grpc::ByteBuffer& request) = 0;
  // One thread at a time; not before Open() has returned OK, not after it has given an end.
  virtual Next Take() = 0;
  // The client has gone: stop the work, which at the deadline stops by itself. Any thread, perhaps before
  // Open(). The call is ended by others.
  virtual void Abandon(bool at_deadline) = 0;
  // The last call.
  virtual void Closed() {}

  Edge& edge() { return *edge_; }
  Time arrival() const { return arrival_; }
  Time deadline() const { return deadline_; }

 private:
  void Step();
  void Cancel();
  absl::Status Gone() const { return heed::Gone(deadline_, edge_->clock().Now()); }
  void End(const absl::Status& status);

  Edge* const edge_;
  const Method method_;
  const Time arrival_, deadline_;
  grpc::CallbackServerContext* context_;  // until OnDone()
  const grpc::ByteBuffer request_;
  std::shared_ptr<StreamCall> self_;  // until OnDone()
  grpc::ByteBuffer message_;          // on its way
  absl::Status outcome_;

  std::mutex mutex_;    // guards the next four; never held while gRPC is called
  bool busy_ = true;    // somebody goes on: Open(), a Step() that runs or is due, or whoever tells that a
                        // message has gone
  bool again_ = false;  // Wake() came meanwhile
  bool cancelled_ = false;
  std::optional<Time> writing_since_;

  std::mutex alive_mutex_;  // held while the context is used from outside; OnDone() takes it
  bool alive_ = true;       // guarded by alive_mutex_
};

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_STREAM_CALL_H_
