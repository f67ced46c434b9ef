#include "server/transport/pulse.h"

#include <chrono>
#include <utility>

#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/transport/monotonic.h"

namespace heed {
namespace {

struct Beating {
  grpc::ClientContext context;
  grpc::ByteBuffer request, response;
};

}  // namespace

void Pulse::Beat(std::function<void(bool answered)> ended) {
  auto call = std::make_shared<Beating>();
  call->context.set_deadline(FromNow(std::chrono::seconds(1)));
  call->request = grpc::ByteBuffer(nullptr, 0);
  stub_.UnaryCall(&call->context, kPulsePath, grpc::StubOptions(), &call->request, &call->response,
                  [call, ended = std::move(ended)](const grpc::Status& status) {
                    ended(status.error_code() == grpc::UNIMPLEMENTED);
                  });
}

}  // namespace heed
