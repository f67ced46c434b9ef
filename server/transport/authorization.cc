#include "server/transport/authorization.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "engine/base/status.h"
#include "grpc/grpc.h"
#include "grpcpp/server_context.h"
#include "server/caught.h"
#include "server/error.h"
#include "server/methods.h"
#include "server/transport/pulse.h"

namespace heed {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

constexpr char kHeader[] = "authorization";
constexpr absl::string_view kScheme = "Bearer ";
constexpr size_t kMostBytes = 4096;

bool IsToken(absl::string_view token) {
  constexpr std::string_view kOthers = "._~+/=-";
  return !token.empty() && token.size() <= kMostBytes && std::ranges::all_of(token, [&](unsigned char c) {
    return absl::ascii_isalnum(c) || kOthers.find(static_cast<char>(c)) != kOthers.npos;
  });
}

absl::StatusOr<std::string_view> TokenOf(const Metadata& metadata) {
  const auto [begin, end] = metadata.equal_range(kHeader);
  const auto entries = std::distance(begin, end);
  if (entries == 0)
    return Error(ErrorReason::kTokenRequired, "a token is needed here, as `authorization: Bearer TOKEN`");
  if (entries > 1)
    return Error(ErrorReason::kTokenRequired, "there are ", entries,
                 " entries `authorization`, only one is read");
  const absl::string_view shown(begin->second.data(), begin->second.size());
  if (!absl::StartsWithIgnoreCase(shown, kScheme))
    return Error(ErrorReason::kTokenRequired, "`authorization` is of another kind, it must be Bearer TOKEN");
  const absl::string_view token = shown.substr(kScheme.size());
  if (!IsToken(token)) {
    return Error(ErrorReason::kTokenRequired, "the token has ", token.size(), " bytes, it must be 1 to ",
                 kMostBytes, " of [A-Za-z0-9._~+/=-]");
  }
  return std::string_view(token.data(), token.size());
}

// One call. To be refused it is cancelled, with a status that its client gets; whoever handles it finds it
// gone.
class Guard final : public grpc::experimental::Interceptor {
 public:
  Guard(ServerRpcInfo* call, Reloaded<KnownTokens>* tokens) : call_(call), tokens_(tokens) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      const auto allowed = [&] {
        const std::string_view method = std::string_view(call_->method()).substr(1);
        return Authorize(*methods->GetRecvInitialMetadata(), *tokens_->Now(), method).status();
      };
      Refuse(Caught("the token could not be looked at", allowed, nullptr));
    }
    methods->Proceed();
  }

 private:
  void Refuse(const absl::Status& status) {
    if (status.ok()) return;
    grpc_call_cancel_with_status(call_->server_context()->c_call(),
                                 static_cast<grpc_status_code>(status.code()),
                                 std::string(status.message()).c_str(), nullptr);
  }

  ServerRpcInfo* const call_;
  Reloaded<KnownTokens>* const tokens_;
};

class Guards final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Guards(Reloaded<KnownTokens>* tokens) : tokens_(tokens) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* call) override {
    const std::string_view path = call->method();
    const bool ours = path == kPulsePath || std::ranges::any_of(kMethods, [&](const Method& method) {
                        return path == Cat("/", method.service, "/", method.name);
                      });
    return ours ? nullptr : new Guard(call, tokens_);
  }

 private:
  Reloaded<KnownTokens>* const tokens_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Rights>> Authorize(const Metadata& metadata, const KnownTokens& tokens,
                                                        std::string_view method) {
  ASSIGN_OR_RETURN(const std::string_view token, TokenOf(metadata));
  std::shared_ptr<const Rights> rights = tokens.Find(token);
  if (rights == nullptr) return Error(ErrorReason::kTokenUnknown, "the token is not known here");
  RETURN_IF_ERROR(CheckMethod(*rights, method));
  return rights;
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> NewGuard(
    Reloaded<KnownTokens>* tokens) {
  return std::make_unique<Guards>(tokens);
}

}  // namespace heed
