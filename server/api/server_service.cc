#include "server/api/server_service.h"

#include "engine/base/status.h"
#include "server/api/models.h"
#include "server/transport/unary_call.h"

namespace heed {
namespace {

constexpr Method kDescribeServer = {"heed.v1.Server", "DescribeServer"};

}  // namespace

grpc::ServerUnaryReactor* ServerService::DescribeServer(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  return UnaryCall<v1::DescribeServerRequest, v1::ServerDescription>::Start(
      api_.edge, kDescribeServer, context, request, response, [this](auto call) {
        v1::ServerDescription answer;
        answer.set_version(HEED_VERSION);
        for (const Registry::Entry& entry : api_.registry->List()) *answer.add_models() = Summary(entry);
        call->Answer(answer);
      });
}

}  // namespace heed
