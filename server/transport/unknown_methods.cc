#include "server/transport/unknown_methods.h"

#include "server/transport/request_id.h"

namespace heed {
namespace {

class Refusing final : public grpc::ServerGenericBidiReactor {
 public:
  Refusing() { Finish({grpc::StatusCode::UNIMPLEMENTED, "the server has no such method"}); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* UnknownMethods::CreateReactor(grpc::GenericCallbackServerContext* context) {
  context->AddInitialMetadata(kRequestIdHeader, RequestIdOf(*context).text);
  return new Refusing;
}

}  // namespace heed
