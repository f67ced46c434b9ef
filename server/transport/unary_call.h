// A call with one request and one answer, from bytes to bytes.
//
//   grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
//   grpc::ByteBuffer* response) override {
//     return UnaryCall<v1::ListModelsRequest, v1::ListModelsResponse>::Start(edge, kList, context, request,
//     response,
//     [](auto call) { call->Answer(...); });
//   }
#ifndef HEED_SERVER_TRANSPORT_UNARY_CALL_H_
#define HEED_SERVER_TRANSPORT_UNARY_CALL_H_

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "engine/base/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/error.h"
#include "server/transport/call.h"
#include "server/transport/wire.h"

namespace heed {

template <typename Request, typename Response>
class UnaryCall final : public CallOf<grpc::ServerUnaryReactor> {
 public:
  using Handler = std::function<void(std::shared_ptr<UnaryCall>)>;

  // `handle` gets the parsed request, as Call::Begin() says. It sees to it that Answer() or Fail() is called,
  // from any thread; if all that hold what it was given have let go of it before, the call has failed.
  static grpc::ServerUnaryReactor* Start(Edge* edge, const Method& method,
                                         grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request, grpc::ByteBuffer* response,
                                         Handler handle) {
    std::shared_ptr<UnaryCall> call(
        new UnaryCall(edge, method, context, request, response, std::move(handle)));
    call->Begin();
    return call.get();
  }

  const Request& request() const { return request_; }

  void Answer(const Response& response) {
    grpc::ByteBuffer bytes = Serialize(response);
    End(absl::OkStatus(), [&] {
      Sent(bytes.Length());
      response_bytes_->Swap(&bytes);
    });
  }
  void Fail(const absl::Status& status) { End(status); }

  // `stop` is called once the client has gone, at once if it already has; it must be quick. Not at the
  // deadline, when work stops by itself. The call still wants its end.
  void WhenCancelled(std::function<void()> stop) {
    std::unique_lock lock(stop_mutex_);
    if (!cancelled_) {
      stop_ = std::move(stop);
      return;
    }
    lock.unlock();
    stop();
  }

 private:
  UnaryCall(Edge* edge, const Method& method, grpc::CallbackServerContext* context,
            const grpc::ByteBuffer* request, grpc::ByteBuffer* response, Handler handle)
      : CallOf(edge, method, context, *request),
        request_bytes_(request),
        response_bytes_(response),
        handle_(std::move(handle)) {}

  absl::Status Open() override {
    RETURN_IF_ERROR(Parse(*request_bytes_, &request_));
    const std::shared_ptr<UnaryCall> held = Held();
    Do([&] { handle_(held); });
    return absl::OkStatus();
  }

  // This call, for who answers it: fails it when nobody is left who could.
  std::shared_ptr<UnaryCall> Held() {
    return {this, [self = shared_from_this()](UnaryCall* call) {
              if (!call->ended())
                call->Fail(Error(ErrorReason::kModelError, "the server has failed on this call"));
            }};
  }

  void ClientGone(bool at_deadline) override {
    if (at_deadline) return;
    std::unique_lock lock(stop_mutex_);
    cancelled_ = true;
    auto stop = std::move(stop_);
    lock.unlock();
    if (stop) stop();
  }

  void Closed() override {
    std::lock_guard lock(stop_mutex_);
    stop_ = nullptr;
  }

  const grpc::ByteBuffer* const request_bytes_;  // these two: until the end is said
  grpc::ByteBuffer* const response_bytes_;
  const Handler handle_;
  Request request_;

  std::mutex stop_mutex_;  // guards the next two
  bool cancelled_ = false;
  std::function<void()> stop_;
};

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_UNARY_CALL_H_
