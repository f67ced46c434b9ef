// The client library: typed calls to a Heed server, answers as absl::StatusOr, streams as they come.
//
//   ASSIGN_OR_RETURN(Client client, Client::Connect("127.0.0.1:8461"));
//   v1::ClassifyRequest request;
//   request.add_inputs()->set_text("A fine film.");
//   ASSIGN_OR_RETURN(v1::ClassifyResponse response, client.Classify(request, {.timeout = absl::Seconds(1)}));
//
// An error has the server's code and message, except that UNAVAILABLE names the address where no server
// answers, or says what TLS has against it (tls_diagnosis.h), and DEADLINE_EXCEEDED the time that was given.
// Why it failed, which field is wrong, when to try
// again and the request's id: DetailsOf(status), in grpc_status.h.
#ifndef HEED_CLIENT_CLIENT_H_
#define HEED_CLIENT_CLIENT_H_

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.pb.h"
#include "heed/v1/inference.pb.h"
#include "heed/v1/models.pb.h"
#include "heed/v1/server.pb.h"

namespace heed {

inline constexpr std::string_view kDefaultAddress = "127.0.0.1:8461";

// PEM files.
struct TlsFiles {
  // Certificates of the authorities one of which must have signed the server's; empty: those that this system
  // trusts.
  std::string authority;
  std::string certificate, key;  // the client's, for servers that ask for one; both, or none of them
};

struct ClientOptions {
  absl::Duration timeout = absl::Seconds(60);  // of a call that names none; Generate then has no limit
  // Calls that the server refuses with a hint when to come again (a full queue, a model that loads) are tried
  // so often in all, within their time; 1: never again. A stream is tried again only if nothing of it has
  // come. Where no connection can be made at first, one more is tried for, for 0.3 s, besides.
  int max_attempts = 3;
  int max_response_bytes = 256 << 20;  // of one message
  std::optional<TlsFiles> tls;         // unset: plain HTTP/2. Read once, by Connect()
  // A file with one token, which goes with every call as `authorization: Bearer TOKEN`; empty: none does.
  // Without TLS who listens on the way gets it, too. Read once, by Connect().
  std::string token_file;
};

// Of one call.
struct CallOptions {
  std::optional<absl::Duration> timeout;  // for all attempts together
  std::stop_token stop;  // ends the call with CANCELLED; may be asked to stop from any thread
  // 1 to 128 of [A-Za-z0-9._:-]: in the server's log and in errors; empty: the server makes one.
  std::string request_id;
};

// Thread-safe. Copies share one connection, which is made when first needed and made again when lost.
class Client {
 public:
  // `address` is HOST:PORT, [IPV6]:PORT or unix:PATH; INVALID_ARGUMENT for anything else, for bad options and
  // for files of theirs that are not what they should be.
  // Does not wait for the server. Proxies that the environment names are not used.
  static absl::StatusOr<Client> Connect(std::string_view address, const ClientOptions& options = {});

  absl::StatusOr<v1::ClassifyResponse> Classify(const v1::ClassifyRequest& request,
                                                const CallOptions& options = {}) const;
  absl::StatusOr<v1::EmbedResponse> Embed(const v1::EmbedRequest& request,
                                          const CallOptions& options = {}) const;
  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request,
                                          const CallOptions& options = {}) const;
  absl::StatusOr<v1::FillResponse> Fill(const v1::FillRequest& request,
                                        const CallOptions& options = {}) const;

  absl::StatusOr<v1::RerankResponse> Rerank(const v1::RerankRequest& request,
                                            const CallOptions& options = {}) const;
  absl::StatusOr<v1::AnswerResponse> Answer(const v1::AnswerRequest& request,
                                            const CallOptions& options = {}) const;
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                                const CallOptions& options = {}) const;
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request,
                                                    const CallOptions& options = {}) const;

  // Gives each event as it comes, from the calling thread. OK when the stream has ended well.
  absl::Status Generate(const v1::GenerateRequest& request,
                        absl::FunctionRef<void(const v1::GenerateEvent&)> on_event,
                        const CallOptions& options = {}) const;

  absl::StatusOr<v1::ListModelsResponse> ListModels(const CallOptions& options = {}) const;
  absl::StatusOr<v1::ModelDescription> DescribeModel(const v1::DescribeModelRequest& request,
                                                     const CallOptions& options = {}) const;
  absl::StatusOr<v1::ServerDescription> DescribeServer(const CallOptions& options = {}) const;
  absl::StatusOr<v1::GetMetricsResponse> GetMetrics(const v1::GetMetricsRequest& request,
                                                    const CallOptions& options = {}) const;

  // Whether the server (with an empty name) or a model is ready. NOT_FOUND for a name that the server does
  // not know.
  absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus> Health(
      std::string_view name = "", const CallOptions& options = {}) const;

 private:
  struct Connection;
  explicit Client(std::shared_ptr<const Connection> connection) : connection_(std::move(connection)) {}
  std::shared_ptr<const Connection> connection_;
};

}  // namespace heed

#endif  // HEED_CLIENT_CLIENT_H_
