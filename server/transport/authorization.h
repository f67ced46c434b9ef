// Who calls, by what the call's metadata has, and whether it may.
#ifndef HEED_SERVER_TRANSPORT_AUTHORIZATION_H_
#define HEED_SERVER_TRANSPORT_AUTHORIZATION_H_

#include <map>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "grpcpp/support/server_interceptor.h"
#include "grpcpp/support/string_ref.h"
#include "server/reloaded.h"
#include "server/tokens.h"

namespace heed {

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// The rights of who shows `authorization: Bearer TOKEN`, if they hold for this method
// ("heed.v1.Inference/Classify"). TOKEN_REQUIRED if there is no such entry, another one or several;
// TOKEN_UNKNOWN; METHOD_FORBIDDEN. No message has anything of what was shown.
absl::StatusOr<std::shared_ptr<const Rights>> Authorize(const Metadata& metadata, const KnownTokens& tokens,
                                                        std::string_view method);

// Guards what no Call does (call.h): services that gRPC brings, as reflection, and methods that nobody has.
// But not the server's own pulse. The tokens must outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> NewGuard(
    Reloaded<KnownTokens>* tokens);

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_AUTHORIZATION_H_
