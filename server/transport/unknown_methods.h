// What is asked for a method that nobody has: UNIMPLEMENTED, with a request id as every call.
#ifndef HEED_SERVER_TRANSPORT_UNKNOWN_METHODS_H_
#define HEED_SERVER_TRANSPORT_UNKNOWN_METHODS_H_

#include "grpcpp/generic/async_generic_service.h"
#include "server/edge.h"

namespace heed {

class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  // The edge is told of each; it outlives them.
  explicit UnknownMethods(const Edge* edge) : edge_(edge) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;

 private:
  const Edge* const edge_;
};

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_UNKNOWN_METHODS_H_
