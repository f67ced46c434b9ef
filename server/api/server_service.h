// heed.v1.Server: what this server is and allows.
#ifndef HEED_SERVER_API_SERVER_SERVICE_H_
#define HEED_SERVER_API_SERVER_SERVICE_H_

#include "heed/v1/server.grpc.pb.h"
#include "server/api/context.h"

namespace heed {

class ServerService final : public v1::Server::WithRawCallbackMethod_DescribeServer<
                                v1::Server::WithRawCallbackMethod_GetMetrics<v1::Server::Service>> {
 public:
  explicit ServerService(const ApiContext& api) : api_(api) {}

  grpc::ServerUnaryReactor* DescribeServer(grpc::CallbackServerContext* context,
                                           const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetMetrics(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;

 private:
  const ApiContext api_;
};

}  // namespace heed

#endif  // HEED_SERVER_API_SERVER_SERVICE_H_
