#include "tests/client/fake_server.h"

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "heed/v1/inference.grpc.pb.h"
#include "heed/v1/models.grpc.pb.h"
#include "heed/v1/server.grpc.pb.h"

namespace heed {
namespace {

using Context = FakeServer::Context;

template <typename Request, typename Response>
grpc::Status AnswerBy(const FakeServer::Method<Request, Response>& method, Context* context,
                      const Request* request, Response* response) {
  if (!method) return {grpc::UNIMPLEMENTED, "not in this test"};
  return method(*context, *request, *response);
}

struct Inference : v1::Inference::Service {
  explicit Inference(FakeServer* fake) : fake(fake) {}
  grpc::Status Classify(Context* c, const v1::ClassifyRequest* q, v1::ClassifyResponse* r) override {
    return AnswerBy(fake->classify, c, q, r);
  }
  grpc::Status Embed(Context* c, const v1::EmbedRequest* q, v1::EmbedResponse* r) override {
    return AnswerBy(fake->embed, c, q, r);
  }
  grpc::Status Score(Context* c, const v1::ScoreRequest* q, v1::ScoreResponse* r) override {
    return AnswerBy(fake->score, c, q, r);
  }
  grpc::Status Fill(Context* c, const v1::FillRequest* q, v1::FillResponse* r) override {
    return AnswerBy(fake->fill, c, q, r);
  }
  grpc::Status Rerank(Context* c, const v1::RerankRequest* q, v1::RerankResponse* r) override {
    return AnswerBy(fake->rerank, c, q, r);
  }
  grpc::Status Answer(Context* c, const v1::AnswerRequest* q, v1::AnswerResponse* r) override {
    return AnswerBy(fake->answer, c, q, r);
  }
  grpc::Status Tokenize(Context* c, const v1::TokenizeRequest* q, v1::TokenizeResponse* r) override {
    return AnswerBy(fake->tokenize, c, q, r);
  }
  grpc::Status Detokenize(Context* c, const v1::DetokenizeRequest* q, v1::DetokenizeResponse* r) override {
    return AnswerBy(fake->detokenize, c, q, r);
  }
  grpc::Status Generate(Context* c, const v1::GenerateRequest* q,
                        grpc::ServerWriter<v1::GenerateEvent>* r) override {
    return AnswerBy(fake->generate, c, q, r);
  }
  FakeServer* fake;
};
struct Models : v1::Models::Service {
  explicit Models(FakeServer* fake) : fake(fake) {}
  grpc::Status ListModels(Context* c, const v1::ListModelsRequest* q, v1::ListModelsResponse* r) override {
    return AnswerBy(fake->list_models, c, q, r);
  }
  grpc::Status DescribeModel(Context* c, const v1::DescribeModelRequest* q,
                             v1::ModelDescription* r) override {
    return AnswerBy(fake->describe_model, c, q, r);
  }
  FakeServer* fake;
};
struct Description : v1::Server::Service {
  explicit Description(FakeServer* fake) : fake(fake) {}
  grpc::Status DescribeServer(Context* c, const v1::DescribeServerRequest* q,
                              v1::ServerDescription* r) override {
    return AnswerBy(fake->describe_server, c, q, r);
  }
  grpc::Status GetMetrics(Context* c, const v1::GetMetricsRequest* q, v1::GetMetricsResponse* r) override {
    return AnswerBy(fake->get_metrics, c, q, r);
  }
  FakeServer* fake;
};
struct Health : grpc::health::v1::Health::Service {
  explicit Health(FakeServer* fake) : fake(fake) {}
  grpc::Status Check(Context* c, const grpc::health::v1::HealthCheckRequest* q,
                     grpc::health::v1::HealthCheckResponse* r) override {
    return AnswerBy(fake->check, c, q, r);
  }
  FakeServer* fake;
};

}  // namespace

struct FakeServer::Services {
  explicit Services(FakeServer* fake) : inference(fake), models(fake), description(fake), health(fake) {}
  Inference inference;
  Models models;
  Description description;
  Health health;
};

FakeServer::FakeServer(const std::shared_ptr<grpc::ServerCredentials>& credentials)
    : services_(std::make_unique<Services>(this)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
  builder.RegisterService(&services_->inference).RegisterService(&services_->models);
  builder.RegisterService(&services_->description).RegisterService(&services_->health);
  server_ = builder.BuildAndStart();
}

FakeServer::~FakeServer() { server_->Shutdown(); }

grpc::Status Refusal(grpc::StatusCode code, const std::string& message, const SaidDetails& said) {
  google::rpc::Status status;
  google::rpc::ErrorInfo info;
  info.set_reason(said.reason);
  info.set_domain("heed");
  status.add_details()->PackFrom(info);
  google::rpc::BadRequest request;
  request.add_field_violations()->set_field(said.field);
  if (!said.field.empty()) status.add_details()->PackFrom(request);
  google::rpc::RequestInfo id;
  id.set_request_id(said.request_id);
  if (!said.request_id.empty()) status.add_details()->PackFrom(id);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(said.retry_milliseconds * 1'000'000);
  if (said.retry_milliseconds > 0) status.add_details()->PackFrom(retry);
  return {code, message, status.SerializeAsString()};
}

v1::GenerateEvent Piece(std::string text, int input, int sample) {
  v1::GenerateEvent event;
  event.set_input(input);
  event.set_sample(sample);
  event.mutable_piece()->set_text(std::move(text));
  return event;
}

v1::GenerateEvent Finished(int tokens, int input, int sample) {
  v1::GenerateEvent event;
  event.set_input(input);
  event.set_sample(sample);
  event.mutable_finished()->set_reason(v1::FINISH_REASON_MAX_TOKENS);
  event.mutable_finished()->mutable_usage()->set_output_tokens(tokens);
  return event;
}

}  // namespace heed
