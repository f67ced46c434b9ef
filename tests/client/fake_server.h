// A server whose answers the test gives: real gRPC on a port of its own, no model behind it.
#ifndef HEED_TESTS_CLIENT_FAKE_SERVER_H_
#define HEED_TESTS_CLIENT_FAKE_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"
#include "grpcpp/support/sync_stream.h"
#include "heed/v1/inference.pb.h"
#include "heed/v1/models.pb.h"
#include "heed/v1/server.pb.h"

namespace heed {

// What is not set answers UNIMPLEMENTED. Set before the first call.
class FakeServer {
 public:
  using Context = grpc::ServerContext;
  template <typename Request, typename Response>
  using Method = std::function<grpc::Status(Context&, const Request&, Response&)>;

  explicit FakeServer(
      const std::shared_ptr<grpc::ServerCredentials>& credentials = grpc::InsecureServerCredentials());
  ~FakeServer();

  int port() const { return port_; }
  std::string address() const { return Cat("127.0.0.1:", port_); }

  Method<v1::ClassifyRequest, v1::ClassifyResponse> classify;
  Method<v1::EmbedRequest, v1::EmbedResponse> embed;
  Method<v1::ScoreRequest, v1::ScoreResponse> score;
  Method<v1::FillRequest, v1::FillResponse> fill;
  Method<v1::GenerateRequest, grpc::ServerWriter<v1::GenerateEvent>> generate;
  Method<v1::RerankRequest, v1::RerankResponse> rerank;
  Method<v1::AnswerRequest, v1::AnswerResponse> answer;
  Method<v1::TokenizeRequest, v1::TokenizeResponse> tokenize;
  Method<v1::DetokenizeRequest, v1::DetokenizeResponse> detokenize;
  Method<v1::ListModelsRequest, v1::ListModelsResponse> list_models;
  Method<v1::DescribeModelRequest, v1::ModelDescription> describe_model;
  Method<v1::DescribeServerRequest, v1::ServerDescription> describe_server;
  Method<v1::GetMetricsRequest, v1::GetMetricsResponse> get_metrics;
  Method<grpc::health::v1::HealthCheckRequest, grpc::health::v1::HealthCheckResponse> check;

 private:
  struct Services;
  std::unique_ptr<Services> services_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;  // last: it ends before what it calls
};

// What a server says beside code and message.
struct SaidDetails {
  std::string reason, field, request_id;
  int retry_milliseconds = 0;  // 0: nothing
};

// An error as heed's servers make it.
grpc::Status Refusal(grpc::StatusCode code, const std::string& message, const SaidDetails& said);

v1::GenerateEvent Piece(std::string text, int input = 0, int sample = 0);
v1::GenerateEvent Finished(int tokens, int input = 0, int sample = 0);

}  // namespace heed

#endif  // HEED_TESTS_CLIENT_FAKE_SERVER_H_
