// Bearer tokens: row L21 of the failure catalogue (reference/serving.md 2.6). Closed by default, on every
// method of every service.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "engine/base/digest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/methods.h"
#include "server/observation/log.h"
#include "tests/server/service/bytes_call.h"
#include "tests/server/service/cases.h"
#include "tests/server/service/tls_world.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kReflection = "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

std::string Entry(const std::string& token, const std::string& rest) {
  return Cat("token { name: 'of-", token, "' sha256: '", Sha256(token).value(), "' ", rest, " }\n");
}

std::unique_ptr<grpc::ClientContext> Showing(const std::vector<std::string>& authorizations) {
  auto context = NewContext();
  for (const std::string& each : authorizations) context->AddMetadata("authorization", each);
  return context;
}

// Token "reads" classifies with the reader, "lists" lists models, "all" does all.
class TokensOfAServer : public testing::Test {
 protected:
  TokensOfAServer() {
    Write(Entry("reads", "methods: 'heed.v1.Inference/Classify' models: 'reader'") +
          Entry("lists", "methods: ['heed.v1.Models/*', 'heed.v1.Server/*'] models: ['reader', 'writer']") +
          Entry("all", "methods: '*' models: '*'"));
    world_ = World::Ready(EveryModel(),
                          [this](config::v1::ServerConfig& config) { config.set_tokens(files_ / "tokens"); });
  }
  void Write(const std::string& text) const { files_.Write("tokens", text); }

  grpc::Status Classify(const std::string& model, const std::vector<std::string>& authorizations) const {
    v1::ClassifyRequest request;
    request.mutable_target()->set_model(model);
    request.add_inputs()->set_text("fine");
    v1::ClassifyResponse response;
    return world_->inference()->Classify(Showing(authorizations).get(), request, &response);
  }
  grpc::Status CallBytes(const std::string& method, const std::string& bytes,
                         const std::vector<std::string>& authorizations = {}) const {
    return CallWith(*world_, "/" + method, &bytes, Showing(authorizations));
  }

  const PemFiles files_;
  std::unique_ptr<World> world_;
};

const Refusal kRequired{.code = grpc::UNAUTHENTICATED,
                        .reason = "TOKEN_REQUIRED",
                        .field = "",
                        .message = "a token is needed here, as `authorization: Bearer TOKEN`"};

// Of each method that there is, and of bytes that are no message: nobody has looked at them.
TEST_F(TokensOfAServer, AreWantedByEveryMethodButThoseOfHealth) {
  for (const Method& method : kMethods) {
    SCOPED_TRACE(method.name);
    const grpc::Status status = CallBytes(Cat(method.service, "/", method.name), "\xff\xff");
    if (method.health) {
      EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    } else {
      ExpectTold(status, kRequired);
    }
  }
  grpc::health::v1::HealthCheckResponse health;
  EXPECT_TRUE(world_->health()->Check(NewContext().get(), {}, &health).ok());
  EXPECT_EQ(health.status(), grpc::health::v1::HealthCheckResponse::SERVING);
}

TEST_F(TokensOfAServer, AreWantedByWhatGrpcBringsToo) {
  for (const std::string& method :
       {kReflection, std::string("grpc.channelz.v1.Channelz/GetServers"), std::string("nobody.Has/This")}) {
    SCOPED_TRACE(method);
    const grpc::Status status = CallBytes(method, "");
    EXPECT_EQ(status.error_code(), grpc::UNAUTHENTICATED) << status.error_message();
    EXPECT_EQ(status.error_message(), kRequired.message);
    EXPECT_EQ(CallBytes(method, "", {"Bearer reads"}).error_code(), grpc::PERMISSION_DENIED);
  }
  EXPECT_EQ(CallBytes("nobody.Has/This", "", {"Bearer all"}).error_code(), grpc::UNIMPLEMENTED);
}

TEST_F(TokensOfAServer, OpenReflectionToWhoMay) {
  const std::string list_services("\x3a\x00", 2);
  BytesCall refused(*world_, "/" + kReflection, Showing({"Bearer lists"}));
  refused.Write(list_services);
  EXPECT_EQ(refused.Read(), std::nullopt);
  EXPECT_EQ(refused.Finish().error_code(), grpc::PERMISSION_DENIED);
  BytesCall call(*world_, "/" + kReflection, Showing({"Bearer all"}));
  ASSERT_TRUE(call.Write(list_services));
  EXPECT_THAT(call.Read().value_or(""), HasSubstr("heed.v1.Inference"));
  EXPECT_TRUE(call.WritesDone());
  EXPECT_TRUE(call.Finish().ok());
}

TEST_F(TokensOfAServer, AreShownInOneFormOnly) {
  EXPECT_TRUE(Classify("reader", {"Bearer reads"}).ok());
  EXPECT_TRUE(Classify("reader", {"bearer reads"}).ok());
  const struct {
    std::vector<std::string> shown;
    std::string reason, message;
  } kCases[] = {
      {{}, "TOKEN_REQUIRED", "a token is needed here"},
      {{"Basic cmVhZHM6cmVhZHM="}, "TOKEN_REQUIRED", "it must be Bearer TOKEN"},
      {{"reads"}, "TOKEN_REQUIRED", "it must be Bearer TOKEN"},
      {{"Bearer"}, "TOKEN_REQUIRED", "it must be Bearer TOKEN"},
      {{"Bearer reads all"}, "TOKEN_REQUIRED", "the token has 9 bytes, it must be 1 to 4096 of"},
      {{"Bearer " + std::string(8192, 'x')}, "TOKEN_REQUIRED", "the token has 8192 bytes"},
      {{"Bearer reads", "Bearer reads"}, "TOKEN_REQUIRED", "there are 2 entries `authorization`"},
      {{"Bearer Reads"}, "TOKEN_UNKNOWN", "the token is not known here"},
      {{"Bearer " + Sha256("reads").value()}, "TOKEN_UNKNOWN", "the token is not known here"},
  };
  for (const auto& [shown, reason, message] : kCases) {
    SCOPED_TRACE(message);
    const grpc::Status status = Classify("reader", shown);
    ExpectTold(status, {.code = grpc::UNAUTHENTICATED, .reason = reason, .field = "", .message = message});
    EXPECT_THAT(status.error_message(), Not(HasSubstr("reads")));
  }
}

TEST_F(TokensOfAServer, AreGoodForTheirMethodsOnly) {
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const auto ask = [&](const std::string& token) {
      return rpc.ask(*world_->inference(), *Showing({"Bearer " + token}), {.inputs = {Text("fine")}}).status;
    };
    EXPECT_TRUE(ask("all").ok());
    EXPECT_EQ(ask("reads").ok(), rpc.name == "Classify");
    ExpectTold(ask("lists"), {.code = grpc::PERMISSION_DENIED,
                              .reason = "METHOD_FORBIDDEN",
                              .field = "",
                              .message = "the token 'of-lists' is not good for this method"});
  }
}

// Nothing tells which models there are.
TEST_F(TokensOfAServer, AreGoodForTheirModelsOnly) {
  for (const char* model : {"embedder", "nobody", "../etc"}) {
    SCOPED_TRACE(model);
    ExpectTold(Classify(model, {"Bearer reads"}),
               {.code = grpc::PERMISSION_DENIED,
                .reason = "MODEL_FORBIDDEN",
                .field = "target.model",
                .message = "the token 'of-reads' is not good for this model"});
    v1::DescribeModelRequest request;
    request.set_model(model);
    v1::ModelDescription description;
    ExpectTold(
        world_->models()->DescribeModel(Showing({"Bearer lists"}).get(), request, &description),
        {.code = grpc::PERMISSION_DENIED, .reason = "MODEL_FORBIDDEN", .field = "model", .message = "model"});
  }
  EXPECT_EQ(Classify("nobody", {"Bearer all"}).error_code(), grpc::NOT_FOUND);
}

TEST_F(TokensOfAServer, ListTheirModelsOnly) {
  v1::ListModelsResponse list;
  ASSERT_TRUE(world_->models()->ListModels(Showing({"Bearer lists"}).get(), {}, &list).ok());
  std::vector<std::string> names;
  for (const auto& model : list.models()) names.push_back(model.model());
  EXPECT_THAT(names, ElementsAre("reader", "writer"));
  v1::ServerDescription server;
  auto stub = v1::Server::NewStub(world_->channel());
  ASSERT_TRUE(stub->DescribeServer(Showing({"Bearer lists"}).get(), {}, &server).ok());
  EXPECT_EQ(server.models_size(), 2);
  EXPECT_THAT(server.features(), testing::Contains("tokens"));
  v1::GetMetricsResponse metrics;
  ASSERT_TRUE(stub->GetMetrics(Showing({"Bearer lists"}).get(), {}, &metrics).ok());
  std::set<std::string> measured;
  for (const auto& family : metrics.families()) {
    for (const auto& metric : family.metrics()) {
      if (metric.labels().contains("model_name")) measured.insert(metric.labels().at("model_name"));
    }
  }
  EXPECT_THAT(measured, ElementsAre("reader", "writer"));
}

TEST(TokensOfOneModel, AreAskedForItsNameWhereNoneIsNamed) {
  const PemFiles files;
  files.Write("tokens", Entry("other", "methods: '*' models: 'other'"));
  auto world = World::Ready(OneClassifier(),
                            [&](config::v1::ServerConfig& config) { config.set_tokens(files / "tokens"); });
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("fine");
  v1::ClassifyResponse response;
  ExpectTold(world->inference()->Classify(Showing({"Bearer other"}).get(), request, &response),
             {.code = grpc::PERMISSION_DENIED,
              .reason = "MODEL_FORBIDDEN",
              .field = "target.model",
              .message = "the token 'of-other' is not good for this model"});
}

TEST_F(TokensOfAServer, AreReadAgainWhenTheFileChanges) {
  EXPECT_EQ(Classify("reader", {"Bearer new"}).error_code(), grpc::UNAUTHENTICATED);
  Write(Entry("new", "methods: '*' models: '*'"));
  EXPECT_TRUE(Eventually([&] { return Classify("reader", {"Bearer new"}).ok(); }));
  EXPECT_EQ(Classify("reader", {"Bearer reads"}).error_code(), grpc::UNAUTHENTICATED);
}

TEST_F(TokensOfAServer, StayWhereTheNewFileIsWrongAndTheLogHasNothingOfThem) {
  FlushLog();
  testing::internal::CaptureStderr();
  Write("token { name: 'a' sha256: 'open-sesame' }");
  std::string log;
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(Classify("reader", {"Bearer reads"}).ok());
    EXPECT_FALSE(Classify("reader", {"Bearer open-sesame"}).ok());
    FlushLog();
    log += testing::internal::GetCapturedStderr();
    testing::internal::CaptureStderr();
    return log.find("changed files not taken") != log.npos;
  }));
  testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("token[0].sha256 has 11 characters"));
  EXPECT_THAT(log, Not(HasSubstr("sesame")));
  EXPECT_THAT(log, Not(HasSubstr("Bearer")));
}

TEST_F(TokensOfAServer, LeaveItsPulseAlone) {
  EXPECT_TRUE(Eventually([&] { return world_->server().beats() >= 2; }));
}

TEST(TokensOfAServerThatStarts, MustBeReadable) {
  const PemFiles files;
  config::v1::ServerConfig config = NewConfig();
  AddModel("m", &config);
  config.set_tokens(files / "none");
  const std::string message(Server::Listen(config).status().message());
  EXPECT_THAT(message, testing::MatchesRegex("tokens is '.*/none': .*No such file or directory"));
  EXPECT_EQ(CheckServer(config).status().message(), message);
}

TEST(TokensOfMetrics, OpenThePageToWhoMay) {
  const PemFiles files;
  files.Write("tokens",
              Entry("scrapes", "methods: 'metrics'") + Entry("calls", "methods: 'heed.v1.Models/*'"));
  auto world = World::Ready(OneClassifier(), [&](config::v1::ServerConfig& config) {
    WithMetrics(config);
    config.set_metrics_tokens(files / "tokens");
  });
  const auto answer = [&](const std::string& header) {
    return AskPort(world->server().metrics_port(),
                   "GET /metrics HTTP/1.1\r\nHost: test\r\n" + header + "Connection: close\r\n\r\n");
  };
  const auto basic = [&](const std::string& name_and_token) {
    return Cat("Authorization: Basic ", absl::Base64Escape(name_and_token), "\r\n");
  };
  EXPECT_THAT(answer(basic("of-scrapes:scrapes")), HasSubstr("\nheed_build_info{"));
  for (const std::string& header :
       {std::string(), basic("of-scrapes:calls"), basic("of-calls:calls"), basic("of-scrapes:"), basic(""),
        std::string("Authorization: Bearer scrapes\r\n"), std::string("Authorization: Basic ?\r\n")}) {
    const std::string refused = answer(header);
    EXPECT_THAT(refused, testing::StartsWith("HTTP/1.1 401 ")) << header;
    EXPECT_THAT(refused, Not(HasSubstr("heed_"))) << header;
  }
  v1::ListModelsResponse list;  // the other port is as open as it was
  EXPECT_TRUE(world->models()->ListModels(NewContext().get(), {}, &list).ok());
}

TEST(TokensOverTls, AreShownByTheClientLibrary) {
  const Authority authority("ours");
  const CertificateAndKey pair = authority.Issue();
  const PemFiles files;
  files.Write("tokens", Entry("secret", "methods: 'heed.v1.Models/*' models: '*'"));
  auto config = NewConfig();
  AddModel("m", &config);
  config.set_tokens(files / "tokens");
  config.mutable_tls()->set_certificate(files.Write("certificate", pair.certificate));
  config.mutable_tls()->set_key(files.Write("key", pair.key));
  auto server =
      *Server::Listen(*WithModels(config), [](const ModelSpec&) { return WithBytes(NewFakeClassifier()); });
  const TlsFiles tls{.authority = files.Write("authority", authority.certificate())};
  const auto call = [&](const std::string& token) {
    return Client::Connect(
               Cat("127.0.0.1:", server->port()),
               {.timeout = absl::Seconds(20), .tls = tls, .token_file = files.Write("token", token)})
        ->ListModels()
        .status();
  };
  EXPECT_EQ(call("secret\n"), absl::OkStatus());
  EXPECT_EQ(call("other").code(), absl::StatusCode::kUnauthenticated);
}

}  // namespace
}  // namespace heed
