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
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/clock.h"
#include "server/edge.h"
#include "server/transport/wire.h"

namespace heed {

template <typename Request, typename Response>
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  using Handler = std::function<void(std::shared_ptr<UnaryCall>)>;

  // Enters the edge, or refuses; then `handle` gets the parsed request on the edge's intake (health: at
  // once). It sees to it that Answer() or Fail() is called once, from any thread.
  static grpc::ServerUnaryReactor* Start(Edge* edge, const Method& method,
                                         grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request, grpc::ByteBuffer* response,
                                         Handler handle) {
    auto call = std::shared_ptr<UnaryCall>(new UnaryCall(edge, method, context, request, response));
    call->self_ = call;
    auto* reactor = call.get();
    if (absl::Status status = edge->Enter(method); !status.ok()) {
      call->Fail(status);
    } else if (method.health) {
      call->Open(handle);
    } else {
      edge->intake().Run([call = std::move(call), handle = std::move(handle)] { call->Open(handle); });
    }
    return reactor;
  }

  const Request& request() const { return request_; }
  Time arrival() const { return arrival_; }
  Time deadline() const { return deadline_; }

  void Answer(const Response& response) {
    *response_bytes_ = Serialize(response);
    Finish(grpc::Status::OK);
  }
  void Fail(const absl::Status& status) {
    outcome_ = status;
    AddHint(status, *context_);
    Finish(ToGrpc(status));
  }

  // `stop` is called once the client has gone, at once if it already has; it must be quick. Not at the
  // deadline, when work stops by itself. The call still wants its end.
  void WhenCancelled(std::function<void()> stop) {
    std::unique_lock lock(mutex_);
    if (!cancelled_) {
      stop_ = std::move(stop);
      return;
    }
    lock.unlock();
    stop();
  }

  void OnCancel() override {
    if (absl::IsDeadlineExceeded(Gone(deadline_, edge_->clock().Now()))) return;
    std::unique_lock lock(mutex_);
    cancelled_ = true;
    auto stop = std::move(stop_);
    lock.unlock();
    if (stop) stop();
  }

  void OnDone() override {
    edge_->Leave(method_, outcome_, edge_->clock().Now() - arrival_);
    stop_ = nullptr;
    self_.reset();
  }

 private:
  UnaryCall(Edge* edge, const Method& method, grpc::CallbackServerContext* context,
            const grpc::ByteBuffer* request, grpc::ByteBuffer* response)
      : edge_(edge),
        method_(method),
        arrival_(edge->clock().Now()),
        deadline_(DeadlineOf(*context, arrival_, edge->longest_call())),
        context_(context),
        request_bytes_(request),
        response_bytes_(response) {}

  void Open(const Handler& handle) {
    if (absl::Status status = Parse(*request_bytes_, &request_); !status.ok()) return Fail(status);
    handle(self_);
  }

  Edge* const edge_;
  const Method method_;
  const Time arrival_, deadline_;
  grpc::CallbackServerContext* context_;  // these three: until the end is said
  const grpc::ByteBuffer* request_bytes_;
  grpc::ByteBuffer* response_bytes_;
  Request request_;
  absl::Status outcome_;
  std::shared_ptr<UnaryCall> self_;  // gRPC's hold on it, until OnDone()

  std::mutex mutex_;  // guards the next two
  bool cancelled_ = false;
  std::function<void()> stop_;
};

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_UNARY_CALL_H_
