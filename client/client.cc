#include "client/client.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "client/credentials.h"
#include "client/grpc_status.h"
#include "client/tls_diagnosis.h"
#include "engine/base/status.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "heed/v1/inference.grpc.pb.h"
#include "heed/v1/models.grpc.pb.h"
#include "heed/v1/server.grpc.pb.h"

namespace heed {

struct Client::Connection {
  std::string address;
  ClientOptions options;
  std::optional<ClientTls> tls;
  std::string token;  // empty: none
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Inference::Stub> inference = v1::Inference::NewStub(channel);
  std::unique_ptr<v1::Models::Stub> models = v1::Models::NewStub(channel);
  std::unique_ptr<v1::Server::Stub> server = v1::Server::NewStub(channel);
  std::unique_ptr<grpc::health::v1::Health::Stub> health = grpc::health::v1::Health::NewStub(channel);

  // Makes the call, again while the server asks for it, and once more where no connection could be made at
  // first. `attempt` says, with its answer, whether another may follow.
  struct Attempt {
    grpc::Status status;
    bool repeatable = true;
  };
  absl::Status Call(absl::Duration timeout, const CallOptions& call,
                    absl::FunctionRef<Attempt(grpc::ClientContext&)> attempt) const;

  // Call() for methods of one request and one answer.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Unary(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                              Response*),
                                 const std::unique_ptr<Stub>& stub, const Request& request,
                                 const CallOptions& call) const;

  bool Unreachable(const grpc::Status& status) const;  // it came from no server
  absl::Status Explain(const grpc::Status& status, const grpc::ClientContext& context,
                       absl::Duration timeout) const;
};

namespace {

// Now and then a connection fails to a server that is there: one that starts again, a connect()
// that ends with EINVAL (seen on Linux 6.18). gRPC waits a second before it tries again.
constexpr absl::Duration kReconnect = absl::Milliseconds(300);
constexpr int kReconnectAfterMs = 100;  // the least that gRPC allows

absl::Status CheckAddress(std::string_view address) {
  if (absl::StartsWith(absl::string_view(address.data(), address.size()), "unix:") && address.size() > 5)
    return {};
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon != std::string_view::npos && colon > 0 &&
      absl::SimpleAtoi(absl::string_view(address.data() + colon + 1, address.size() - colon - 1), &port) &&
      port >= 1 && port <= 65535) {
    return {};
  }
  return Invalid("address '", address, "' is not HOST:PORT with a port of 1 to 65535, nor unix:PATH");
}

absl::Status CheckOptions(const ClientOptions& options) {
  if (options.timeout <= absl::ZeroDuration()) {
    return Invalid("timeout is ", absl::FormatDuration(options.timeout), ", must be above 0");
  }
  if (options.max_attempts < 1)
    return Invalid("max_attempts is ", options.max_attempts, ", must be at least 1");
  if (options.max_response_bytes < 1) {
    return Invalid("max_response_bytes is ", options.max_response_bytes, ", must be at least 1");
  }
  return {};
}

absl::Status CheckRequestId(std::string_view id) {
  constexpr std::string_view kOthers = "._:-";
  const bool good = std::ranges::all_of(id, [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kOthers.find(c) != kOthers.npos;
  });
  if (good && id.size() <= 128) return {};
  return Invalid("request_id has ", id.size(), " characters, must be at most 128 of [A-Za-z0-9._:-]");
}

// Waits; false if told to stop before the time was over.
bool Pause(absl::Duration duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait_for(lock, stop, absl::ToChronoNanoseconds(duration), [] { return false; });
  return !stop.stop_requested();
}

}  // namespace

absl::StatusOr<Client> Client::Connect(std::string_view address, const ClientOptions& options) {
  RETURN_IF_ERROR(CheckAddress(address));
  RETURN_IF_ERROR(CheckOptions(options));
  std::optional<ClientTls> tls;
  if (options.tls) {
    ASSIGN_OR_RETURN(tls, ReadTls(*options.tls));
  }
  std::string token;
  if (!options.token_file.empty()) {
    ASSIGN_OR_RETURN(token, ReadToken(options.token_file));
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_response_bytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectAfterMs);
  std::string target(address);
  auto channel = grpc::CreateCustomChannel(target, ToGrpc(tls), arguments);
  return Client(std::shared_ptr<const Connection>(
      new Connection{std::move(target), options, std::move(tls), std::move(token), std::move(channel)}));
}

absl::Status Client::Connection::Call(absl::Duration timeout, const CallOptions& call,
                                      absl::FunctionRef<Attempt(grpc::ClientContext&)> attempt) const {
  if (timeout <= absl::ZeroDuration())
    return Invalid("timeout is ", absl::FormatDuration(timeout), ", must be above 0");
  RETURN_IF_ERROR(CheckRequestId(call.request_id));
  const absl::Time deadline = absl::Now() + timeout;
  bool reconnected = false;
  for (int attempts = 1;;) {
    grpc::ClientContext context;
    if (deadline != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(deadline));
    if (!call.request_id.empty()) context.AddMetadata("x-request-id", call.request_id);
    if (!token.empty()) context.AddMetadata("authorization", Cat("Bearer ", token));
    std::stop_callback cancel(call.stop, [&] { context.TryCancel(); });
    const auto [status, repeatable] = attempt(context);
    if (status.ok()) return absl::OkStatus();
    if (!repeatable) return Explain(status, context, timeout);
    if (Unreachable(status)) {
      const absl::Time until = std::min(deadline, absl::Now() + kReconnect);
      if (std::exchange(reconnected, true) || !channel->WaitForConnected(absl::ToChronoTime(until)))
        return Explain(status, context, timeout);
      continue;
    }
    const std::optional<absl::Duration> wait = RetryDelay(status, context);
    if (!wait || attempts++ == options.max_attempts || absl::Now() + *wait >= deadline)
      return Explain(status, context, timeout);
    if (!Pause(*wait, call.stop)) return absl::CancelledError("stopped while waiting to try again");
  }
}

bool Client::Connection::Unreachable(const grpc::Status& status) const {
  return status.error_code() == grpc::UNAVAILABLE &&
         channel->GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE;
}

// Two errors come from gRPC and not from the server, and their words say neither where nor how long.
absl::Status Client::Connection::Explain(const grpc::Status& status, const grpc::ClientContext& context,
                                         absl::Duration timeout) const {
  if (Unreachable(status)) {
    RETURN_IF_ERROR(DiagnoseTls(address, tls));
    return absl::UnavailableError(Cat("no server at ", address, ": start one with `heed serve`"));
  }
  if (status.error_code() == grpc::DEADLINE_EXCEEDED && status.error_message() == "Deadline Exceeded") {
    const std::string_view what =
        channel->GetState(false) == GRPC_CHANNEL_READY ? "no answer from " : "no connection to ";
    return absl::DeadlineExceededError(Cat(what, address, " within ", absl::FormatDuration(timeout)));
  }
  return FromGrpc(status, context);
}

template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Client::Connection::Unary(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                                const Request&, Response*),
                                                   const std::unique_ptr<Stub>& stub, const Request& request,
                                                   const CallOptions& call) const {
  Response response;
  RETURN_IF_ERROR(Call(call.timeout.value_or(options.timeout), call, [&](grpc::ClientContext& context) {
    return Attempt{((*stub).*method)(&context, request, &response)};
  }));
  return response;
}

absl::StatusOr<v1::ClassifyResponse> Client::Classify(const v1::ClassifyRequest& request,
                                                      const CallOptions& options) const {
  return connection_->Unary(&v1::Inference::Stub::Classify, connection_->inference, request, options);
}

absl::StatusOr<v1::EmbedResponse> Client::Embed(const v1::EmbedRequest& request,
                                                const CallOptions& options) const {
  return connection_->Unary(&v1::Inference::Stub::Embed, connection_->inference, request, options);
}

absl::StatusOr<v1::ScoreResponse> Client::Score(const v1::ScoreRequest& request,
                                                const CallOptions& options) const {
  return connection_->Unary(&v1::Inference::Stub::Score, connection_->inference, request, options);
}

absl::StatusOr<v1::FillResponse> Client::Fill(const v1::FillRequest& request,
                                              const CallOptions& options) const {
  return connection_->Unary(&v1::Inference::Stub::Fill, connection_->inference, request, options);
}

absl::StatusOr<v1::RerankResponse> Client::Rerank(const v1::RerankRequest& request,
                                                  const CallOptions& options) const {
  return connection_->Unary(&v1::Inference::Stub::Rerank, connection_->inference, request, options);
}

absl::StatusOr<v1::AnswerResponse> Client::Answer(const v1::AnswerRequest& request,
                                                  const CallOptions& options) const {
  return connection_->Unary(&v1::Inference::Stub::Answer, connection_->inference, request, options);
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const v1::TokenizeRequest& request,
                                                      const CallOptions& options) const {
  return connection_->Unary(&v1::Inference::Stub::Tokenize, connection_->inference, request, options);
}

absl::StatusOr<v1::DetokenizeResponse> Client::Detokenize(const v1::DetokenizeRequest& request,
                                                          const CallOptions& options) const {
  return connection_->Unary(&v1::Inference::Stub::Detokenize, connection_->inference, request, options);
}

absl::Status Client::Generate(const v1::GenerateRequest& request,
                              absl::FunctionRef<void(const v1::GenerateEvent&)> on_event,
                              const CallOptions& options) const {
  const absl::Duration timeout = options.timeout.value_or(absl::InfiniteDuration());
  return connection_->Call(timeout, options, [&](grpc::ClientContext& context) {
    auto stream = connection_->inference->Generate(&context, request);
    v1::GenerateEvent event;
    bool begun = false;
    while (stream->Read(&event)) {
      begun = true;
      on_event(event);
    }
    return Connection::Attempt{stream->Finish(), !begun};
  });
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels(const CallOptions& options) const {
  return connection_->Unary(&v1::Models::Stub::ListModels, connection_->models, v1::ListModelsRequest(),
                            options);
}

absl::StatusOr<v1::ModelDescription> Client::DescribeModel(const v1::DescribeModelRequest& request,
                                                           const CallOptions& options) const {
  return connection_->Unary(&v1::Models::Stub::DescribeModel, connection_->models, request, options);
}

absl::StatusOr<v1::ServerDescription> Client::DescribeServer(const CallOptions& options) const {
  return connection_->Unary(&v1::Server::Stub::DescribeServer, connection_->server,
                            v1::DescribeServerRequest(), options);
}

absl::StatusOr<v1::GetMetricsResponse> Client::GetMetrics(const v1::GetMetricsRequest& request,
                                                          const CallOptions& options) const {
  return connection_->Unary(&v1::Server::Stub::GetMetrics, connection_->server, request, options);
}

absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus> Client::Health(
    std::string_view name, const CallOptions& options) const {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(std::string(name));
  ASSIGN_OR_RETURN(auto response, connection_->Unary(&grpc::health::v1::Health::Stub::Check,
                                                     connection_->health, request, options));
  return response.status();
}

}  // namespace heed
