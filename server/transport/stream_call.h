// A call that is answered with a stream. At most one message is on its way; the next is made when that has
// gone, so a slow client gets fewer and larger ones, and nothing piles up.
#ifndef HEED_SERVER_TRANSPORT_STREAM_CALL_H_
#define HEED_SERVER_TRANSPORT_STREAM_CALL_H_

#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/transport/call.h"

namespace heed {

class StreamCall : public CallOf<grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  StreamCall(Edge* edge, const Method& method, grpc::CallbackServerContext* context,
             const grpc::ByteBuffer* request);

  // There may be something to send. Any thread, never blocks; afterwards too, without effect.
  void Wake();

  void OnWriteDone(bool ok) final;

 protected:
  // What comes next: a message, the end, or nothing yet.
  struct Next {
    std::optional<grpc::ByteBuffer> message;
    std::optional<absl::Status> end;
  };

  // This call, for who may Wake() it.
  std::weak_ptr<StreamCall> weak_from_this() {
    return std::static_pointer_cast<StreamCall>(shared_from_this());
  }

  // Reads the request and starts the work; an error is the call's end.
  virtual absl::Status Open(const grpc::ByteBuffer& request) = 0;
  // One thread at a time; not before Open() has returned OK, not after it has given an end.
  virtual Next Take() = 0;
  // The client has gone: stop the work, which at the deadline stops by itself. Any thread, perhaps before
  // Open(). The call is ended by others.
  virtual void Abandon(bool at_deadline) = 0;

 private:
  absl::Status Open() final;
  void ClientGone(bool at_deadline) final;
  void Step();
  bool StepOnce();

  const grpc::ByteBuffer request_;
  grpc::ByteBuffer message_;  // on its way

  std::mutex step_mutex_;  // guards the rest; never held while gRPC is called
  bool busy_ = true;       // somebody goes on: Open(), a Step() that runs or is due, or whoever tells that a
                           // message has gone
  bool again_ = false;     // Wake() came meanwhile
  bool cancelled_ = false;
};

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_STREAM_CALL_H_
