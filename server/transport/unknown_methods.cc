#include "server/transport/unknown_methods.h"

#include <string>

#include "server/transport/peer.h"
#include "server/transport/request_id.h"

namespace heed {
namespace {

constexpr char kNoSuchMethod[] = "the server has no such method";
// Whatever the client called it.
constexpr Method kUnknown{.index = -1, .service = "unknown", .name = "unknown"};

class Refusing final : public grpc::ServerGenericBidiReactor {
 public:
  Refusing(const Edge* edge, grpc::GenericCallbackServerContext* context)
      : edge_(edge),
        arrival_(edge->clock().Now()),
        id_(RequestIdOf(*context).text),
        peer_(edge->peers() ? PeerOf(*context) : "") {
    context->AddTrailingMetadata(kRequestIdHeader, id_);
    Finish({grpc::StatusCode::UNIMPLEMENTED, kNoSuchMethod});
  }

  void OnDone() override {
    const absl::Status status = absl::UnimplementedError(kNoSuchMethod);
    edge_->Unknown({.method = kUnknown,
                    .status = status,
                    .took = edge_->clock().Now() - arrival_,
                    .request_id = id_,
                    .use = {},
                    .peer = peer_});
    delete this;
  }

 private:
  const Edge* const edge_;
  const Time arrival_;
  const std::string id_, peer_;
};

}  // namespace

grpc::ServerGenericBidiReactor* UnknownMethods::CreateReactor(grpc::GenericCallbackServerContext* context) {
  return new Refusing(edge_, context);
}

}  // namespace heed
