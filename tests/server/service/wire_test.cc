// What is no request at all: bytes that do not parse, calls without a message, compressed ones, methods that
// nobody has, no HTTP/2. And what every call is told: its id, and why it failed.
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/api/answers.h"
#include "server/error.h"
#include "server/observation/log.h"
#include "server/service/library_logs.h"
#include "server/transport/utf8.h"
#include "server/transport/wire.h"
#include "tests/server/service/raw_http2.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

constexpr const char* kMethods[] = {"/heed.v1.Inference/Classify",   "/heed.v1.Inference/Embed",
                                    "/heed.v1.Inference/Score",      "/heed.v1.Inference/Fill",
                                    "/heed.v1.Inference/Generate",   "/heed.v1.Models/ListModels",
                                    "/heed.v1.Models/DescribeModel", "/heed.v1.Server/DescribeServer",
                                    "/grpc.health.v1.Health/Check",  "/grpc.health.v1.Health/Watch"};

// A call of these bytes; of no message at all if they are null.
grpc::Status Call(World& world, const std::string& method, const std::string* bytes) {
  grpc::GenericStub stub(world.channel());
  auto context = NewContext();
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(context.get(), method, &queue);
  auto step = [&] {
    void* tag;
    bool ok = false;
    queue.Next(&tag, &ok);
  };
  call->StartCall(nullptr);
  step();
  if (bytes) {
    const grpc::Slice slice(*bytes);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  } else {
    call->WritesDone(nullptr);
  }
  step();
  grpc::Status status;
  call->Finish(&status, nullptr);
  step();
  queue.Shutdown();
  return status;
}

std::unique_ptr<World> OneModel() {
  return World::Ready({{"m", [] { return WithBytes(NewFakeClassifier()); }}});
}

TEST(Wire, BytesThatAreNoMessageAreTheCallersMistake) {
  auto world = OneModel();
  std::string deep;  // a group within a group within ...
  for (int i = 0; i < 200; ++i) deep += "\x0b";
  for (const char* method : kMethods) {
    for (const std::string& bytes : {std::string("\xff\xff\xff\xff"), std::string("\x0a\x7f", 2), deep}) {
      EXPECT_EQ(Call(*world, method, &bytes).error_code(), grpc::INVALID_ARGUMENT) << method;
    }
  }
}

// The bytes of the message with "TEXT" in it where the invalid ones then stand.
template <typename Message>
std::string WithInvalid(const Message& message) {
  std::string bytes = message.SerializeAsString();
  return bytes.replace(bytes.find("TEXT"), 4, "\xff\xfe\xc0\x80");
}

TEST(Wire, ATextThatIsNotUtf8IsNamed) {
  auto world = OneModel();
  v1::ClassifyRequest classify;
  classify.add_inputs()->set_text("good");
  classify.add_inputs()->mutable_pair()->set_second("TEXT");
  std::string bytes = WithInvalid(classify);
  EXPECT_EQ(Call(*world, "/heed.v1.Inference/Classify", &bytes).error_message(),
            "inputs[1].pair.second: it is not UTF-8");
  v1::GenerateRequest generate;
  generate.mutable_stopping()->add_stop("good");
  generate.mutable_stopping()->add_stop("TEXT");
  bytes = WithInvalid(generate);
  const grpc::Status status = Call(*world, "/heed.v1.Inference/Generate", &bytes);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "stopping.stop[1]: it is not UTF-8");
}

TEST(Wire, AMapsTextThatIsNotUtf8IsNamed) {
  v1::EmbedRequest request;
  request.add_inputs()->mutable_row();
  auto& categories = *request.mutable_inputs(0)->mutable_row()->mutable_categories();
  const auto named = [&] { return FieldNotUtf8(*request.GetDescriptor(), WithInvalid(request)); };
  categories["color"] = "TEXT";
  EXPECT_EQ(named(), "inputs[0].row.categories");
  categories = {};
  categories["TEXT"] = "red";
  EXPECT_EQ(named(), "inputs[0].row.categories");
}

TEST(Wire, NoFieldIsNamedWhereNoTextIsWrong) {
  const auto& type = *v1::ClassifyRequest::descriptor();
  v1::ClassifyRequest request;
  request.mutable_target()->set_model("m");
  request.add_inputs()->set_text("g\u00fct");
  EXPECT_EQ(FieldNotUtf8(type, request.SerializeAsString()), "");
  EXPECT_EQ(FieldNotUtf8(type, "\xff\xff\xff\xff"), "");
  EXPECT_EQ(FieldNotUtf8(type, std::string("\x12\x7f", 2)), "");
  std::string unknown(1, '\x7a');  // field 15, which nobody has
  EXPECT_EQ(FieldNotUtf8(type, unknown + "\x02\xff\xfe"), "");
}

TEST(Wire, ACallWithoutAMessageIsTheCallersMistake) {
  auto world = OneModel();
  for (const char* method : kMethods)
    EXPECT_EQ(Call(*world, method, nullptr).error_code(), grpc::INVALID_ARGUMENT) << method;
}

TEST(Wire, AMethodThatNobodyHasIsUnimplemented) {
  auto world = OneModel();
  const std::string empty;
  for (const char* method : {"/heed.v1.Inference/Translate", "/nobody.Service/Method"}) {
    EXPECT_EQ(Call(*world, method, &empty).error_code(), grpc::UNIMPLEMENTED) << method;
  }
}

TEST(Wire, CompressedRequestsAreRefused) {
  auto world = OneModel();
  v1::ClassifyRequest request;
  request.add_inputs()->set_text(std::string(1000, 'x'));
  v1::ClassifyResponse response;
  auto context = NewContext();
  context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
  EXPECT_EQ(world->inference()->Classify(context.get(), request, &response).error_code(),
            grpc::UNIMPLEMENTED);
}

TEST(Wire, MessagesOverTheLimitAreRefused) {
  auto world = World::Ready(
      {{"m", [] { return WithBytes(NewFakeClassifier()); }}},
      [](config::v1::ServerConfig& config) { config.mutable_transport()->set_receive_bytes(10'000); });
  v1::ClassifyRequest request;
  request.add_inputs()->set_text(std::string(20'000, 'x'));
  v1::ClassifyResponse response;
  EXPECT_EQ(world->inference()->Classify(NewContext().get(), request, &response).error_code(),
            grpc::RESOURCE_EXHAUSTED);
}

// ---------------------------------------------------------------------------------------- by hand, not by
// gRPC

TEST(Wire, AMessageCutShortIsRefused) {
  auto world = OneModel();
  for (const char* method : kMethods) {
    RawClient client(world->server().port());
    client.Hello();
    client.Call(method);
    client.Message("abc", /*declared=*/100);
    const int status = client.Status();
    EXPECT_TRUE(status == grpc::INVALID_ARGUMENT || status == grpc::INTERNAL) << method << ": " << status;
  }
}

// gRPC 1.51 reads it as no deadline; the server's own holds.
TEST(Wire, ADeadlineThatIsNoneIsTheServersOwn) {
  auto world = World::Ready({{"writer", [] { return WithBytes(NewFakeWriter(1'000'000)); }}},
                            [](config::v1::ServerConfig& config) {
                              config.mutable_limits()->set_deadline_seconds(1);
                              config.mutable_limits()->set_tokens(1'000'000);
                            });
  RawClient client(world->server().port());
  client.Hello(/*large_windows=*/true);
  client.Call("/heed.v1.Inference/Generate", {{"grpc-timeout", "abc"}});
  client.Message(GreedyRequest("writer", "abc", 900'000));
  EXPECT_EQ(client.Status(), grpc::DEADLINE_EXCEEDED);
}

TEST(Wire, ADeadlineThatHasPassedCostsNoWork) {
  std::atomic<int> passes = 0;
  auto world = World::Ready({{"m", [&] {
                                auto model = NewFakeClassifier();
                                model->on_layer = [&](int) { ++passes; };
                                return WithBytes(std::move(model));
                              }}});
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("good");
  for (const char* method : {"/heed.v1.Inference/Classify", "/heed.v1.Inference/Generate"}) {
    RawClient client(world->server().port());
    client.Hello();
    client.Call(method, {{"grpc-timeout", "0n"}});
    client.Message(request);
    EXPECT_EQ(client.Status(), grpc::DEADLINE_EXCEEDED) << method;
  }
  EXPECT_EQ(passes, 0);
}

// gRPC 1.51 does not look at it, and the calls are the same as any.
TEST(Wire, AnotherContentTypeChangesNothing) {
  auto world = OneModel();
  for (const char* type : {"application/json", ""}) {
    for (const char* method : {"/heed.v1.Models/ListModels", "/heed.v1.Inference/Generate"}) {
      RawClient client(world->server().port());
      client.Hello();
      client.Call(method, {{"content-type", type}});
      client.Message("", 0);
      const bool stream = std::string(method).ends_with("Generate");
      EXPECT_EQ(client.Status(), stream ? grpc::INVALID_ARGUMENT : grpc::OK) << method << type;
    }
  }
}

TEST(Wire, WhatIsNoHttp2IsClosedAndDoesNotFillTheLog) {
  TameLibraryLogs();
  auto world = OneModel();
  FlushLog();
  testing::internal::CaptureStderr();
  std::string noise(65536, '\0');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i * 31 >> 3);
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
                                   std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), noise}) {
    for (int i = 0; i < 20; ++i) {
      RawClient client(world->server().port());
      client.Send(bytes);
      EXPECT_TRUE(client.Closed());
    }
  }
  EXPECT_TRUE(FlushLog());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'), 30) << log;
}

TEST(Wire, WhoSaysNothingIsHungUpOn) {
  auto world = World::Ready(
      {{"m", [] { return WithBytes(NewFakeClassifier()); }}},
      [](config::v1::ServerConfig& config) { config.mutable_transport()->set_handshake_seconds(1); });
  RawClient silent(world->server().port()), half(world->server().port());
  half.Send("PRI * HTTP/2.0\r\n");
  EXPECT_TRUE(silent.Closed());
  EXPECT_TRUE(half.Closed());
}

TEST(Wire, AnAnswerThatNobodyReadsEndsInTheServerToo) {
  auto world = World::Ready({{"wide",
                              [] {
                                auto model = NewFakeClassifier();
                                ModelInfo info = model->info();
                                info.head = Head::kEmbedding;
                                info.output_width = 100'000;
                                model->set_info(info);
                                model->head = [](const std::vector<int32_t>&) {
                                  return std::vector<float>(100'000, 1);
                                };
                                return WithBytes(std::move(model));
                              }}},
                            [](config::v1::ServerConfig& config) {
                              WithMetrics(config);
                              config.mutable_limits()->set_stall_seconds(0.1);
                            });
  v1::EmbedRequest request;
  request.add_inputs()->set_text("good");
  RawClient client(world->server().port());
  client.Hello();
  client.Call("/heed.v1.Inference/Embed");
  client.Message(request);
  const std::string handled =
      "grpc_server_handled_total{grpc_code=\"Canceled\",grpc_method=\"Embed\",grpc_service=\"heed.v1."
      "Inference\",grpc_type=\"unary\"}";
  EXPECT_TRUE(Eventually([&] { return Metrics(*world).find(handled + " 1") != std::string::npos; }));
  EXPECT_TRUE(Eventually([&] { return MetricSum(*world, "heed_calls_in_flight") == 0; }));
}

// -------------------------------------------------------------------------------------------------------
// errors

// What the details of a status hold.
struct Told {
  google::rpc::Status status;
  google::rpc::ErrorInfo error;
  google::rpc::BadRequest request;
  google::rpc::RetryInfo retry;
  google::rpc::RequestInfo id;

  explicit Told(const grpc::Status& from) {
    EXPECT_TRUE(status.ParseFromString(from.error_details()));
    EXPECT_EQ(status.code(), from.error_code());
    EXPECT_EQ(status.message(), from.error_message());
    for (const auto& detail : status.details()) {
      EXPECT_TRUE(detail.UnpackTo(&error) || detail.UnpackTo(&request) || detail.UnpackTo(&retry) ||
                  detail.UnpackTo(&id));
    }
  }
};

TEST(Errors, CarryTheirFieldAndHint) {
  const absl::Status status =
      RetryAfter(AtField(Error(ErrorReason::kQueueFull, "full"), "inputs[2]"), std::chrono::milliseconds(5));
  EXPECT_EQ(ToError(status).message(), "full");
  const grpc::Status sent = ToGrpc(status, "id");
  EXPECT_EQ(sent.error_message(), "inputs[2]: full");
  const Told told(sent);
  EXPECT_EQ(told.status.details_size(), 4);
  EXPECT_EQ(told.error.reason(), "QUEUE_FULL");
  EXPECT_EQ(told.error.domain(), "heed");
  ASSERT_EQ(told.request.field_violations_size(), 1);
  EXPECT_EQ(told.request.field_violations(0).field(), "inputs[2]");
  EXPECT_EQ(told.request.field_violations(0).description(), "full");
  EXPECT_EQ(told.retry.retry_delay().nanos(), 5'000'000);
  EXPECT_EQ(told.id.request_id(), "id");
}

TEST(Errors, HaveNoDetailThatNobodyKnows) {
  const Told told(ToGrpc(Error(ErrorReason::kModelError, "broken"), "id"));
  EXPECT_EQ(told.status.details_size(), 2);
  EXPECT_EQ(told.error.reason(), "MODEL_ERROR");
  EXPECT_TRUE(ToGrpc(absl::OkStatus(), "id").error_details().empty());
}

// 8 KiB of headers is what clients take.
TEST(Errors, AreCutToWhatHeadersHold) {
  std::string long_text;
  while (long_text.size() < 100'000) long_text += "\u00e9";
  const grpc::Status sent = ToGrpc(AtField(Invalid(long_text), "x" + long_text), "id");
  EXPECT_LE(sent.error_message().size() * 3 + sent.error_details().size() * 4 / 3, 8192u);
  EXPECT_TRUE(ValidUtf8(sent.error_message()));
  const Told told(sent);
}

TEST(Errors, OfCallsReachTheirClients) {
  auto world = OneModel();
  auto context = NewContext();
  v1::ClassifyRequest request;
  request.mutable_target()->set_model("nobody");
  v1::ClassifyResponse response;
  const Told unary(world->inference()->Classify(context.get(), request, &response));
  EXPECT_EQ(unary.error.reason(), "MODEL_NOT_FOUND");
  EXPECT_EQ(unary.request.field_violations(0).field(), "target.model");
  auto stream_context = NewContext();
  auto stream = world->inference()->Generate(stream_context.get(), GreedyRequest("nobody", "abc", 3));
  v1::GenerateEvent event;
  EXPECT_FALSE(stream->Read(&event));
  const Told streamed(stream->Finish());
  EXPECT_EQ(streamed.error.reason(), "MODEL_NOT_FOUND");
}

TEST(Errors, TellWhenToTryAgain) {
  World world({{"m", [] { return WithBytes(NewFakeClassifier()); }}});  // not loaded
  auto context = NewContext();
  v1::ClassifyRequest request;
  v1::ClassifyResponse response;
  const Told told(world.inference()->Classify(context.get(), request, &response));
  EXPECT_EQ(told.error.reason(), "MODEL_LOADING");
  EXPECT_EQ(told.retry.retry_delay().seconds(), 1);
  const auto pushback = context->GetServerTrailingMetadata().find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, context->GetServerTrailingMetadata().end());
  EXPECT_EQ(pushback->second, "1000");
}

TEST(Errors, AreReadByPythonToo) {
  auto world = OneModel();
  const std::string command = Cat("python3 ", HEED_SOURCE_DIR, "/tests/server/service/error_details.py ",
                                  HEED_SOURCE_DIR, "/proto ", world->address());
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command;
}

// --------------------------------------------------------------------------------------------------- request
// ids

std::string IdIn(const grpc::ClientContext& context) {
  const auto& headers = context.GetServerInitialMetadata();
  const auto found = headers.find("x-request-id");
  return found == headers.end() ? "" : std::string(found->second.data(), found->second.size());
}

TEST(RequestId, ComesBackWithEveryCall) {
  auto world = OneModel();
  v1::ClassifyRequest request;
  v1::ClassifyResponse response;
  for (const char* text : {"good", ""}) {  // the second is refused
    request.clear_inputs();
    request.add_inputs()->set_text(text);
    auto context = NewContext();
    context->AddMetadata("x-request-id", "abc.DEF_1:2-3");
    const grpc::Status status = world->inference()->Classify(context.get(), request, &response);
    EXPECT_EQ(IdIn(*context), "abc.DEF_1:2-3");
    EXPECT_EQ(status.ok(), text[0] != '\0');
    if (!status.ok()) {
      EXPECT_EQ(Told(status).id.request_id(), "abc.DEF_1:2-3");
    }
  }
  auto context = NewContext();
  context->AddMetadata("x-request-id", "stream");
  auto stream = world->inference()->Generate(context.get(), GreedyRequest("m", "abc", 3));
  v1::GenerateEvent event;
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_EQ(Told(stream->Finish()).id.request_id(), "stream");
  EXPECT_EQ(IdIn(*context), "stream");
}

TEST(RequestId, IsMadeWhereThereIsNone) {
  auto world = OneModel();
  std::string ids[2];
  for (std::string& id : ids) {
    auto context = NewContext();
    v1::ListModelsResponse list;
    ASSERT_TRUE(world->models()->ListModels(context.get(), {}, &list).ok());
    id = IdIn(*context);
    EXPECT_THAT(id, testing::MatchesRegex("[0-9a-f]{32}"));
  }
  EXPECT_NE(ids[0], ids[1]);
}

TEST(RequestId, OfAnotherFormIsRefused) {
  auto world = OneModel();
  for (const std::string& id : {std::string(), std::string("a b"), std::string(129, 'x')}) {
    auto context = NewContext();
    context->AddMetadata("x-request-id", id);
    v1::ListModelsResponse list;
    const grpc::Status status = world->models()->ListModels(context.get(), {}, &list);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << id;
    EXPECT_EQ(Told(status).request.field_violations(0).field(), "x-request-id");
    EXPECT_EQ(Told(status).id.request_id(), IdIn(*context));
    EXPECT_THAT(IdIn(*context), testing::MatchesRegex("[0-9a-f]{32}"));
  }
  auto context = NewContext();
  context->AddMetadata("x-request-id", std::string(128, 'x'));
  v1::ListModelsResponse list;
  EXPECT_TRUE(world->models()->ListModels(context.get(), {}, &list).ok());
}

TEST(RequestId, IsInTheLogOfAFailedCall) {
  auto world = World::Ready({{"m", [] {
                                auto model = NewFakeClassifier();
                                model->on_layer = [](int) { throw std::runtime_error("broken"); };
                                return WithBytes(std::move(model));
                              }}});
  FlushLog();
  testing::internal::CaptureStderr();
  auto context = NewContext();
  context->AddMetadata("x-request-id", "find-me");
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("good");
  v1::ClassifyResponse response;
  EXPECT_EQ(world->inference()->Classify(context.get(), request, &response).error_code(), grpc::INTERNAL);
  world.reset();
  EXPECT_TRUE(FlushLog());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::ContainsRegex("\"event\":\"call failed\".*\"method\":\"Classify\",\"reason\":"
                                     "\"MODEL_ERROR\".*\"request_id\":\"find-me\""));
}

// ----------------------------------------------------------------------------------------------------------
// logs

TEST(Log, HoldsNoTextOfAClient) {
  FlushLog();
  testing::internal::CaptureStderr();
  {
    TameLibraryLogs();
    auto world = OneModel();
    const std::string invalid_utf8 = std::string("\x0a\x0c\x0a\x0asecret\xff\xfe\xfd\xfc", 14);
    EXPECT_EQ(Call(*world, "/heed.v1.Inference/Classify", &invalid_utf8).error_code(),
              grpc::INVALID_ARGUMENT);
    v1::ClassifyRequest request;
    request.add_inputs()->set_text("secret");
    v1::ClassifyResponse response;
    EXPECT_TRUE(world->inference()->Classify(NewContext().get(), request, &response).ok());
  }
  EXPECT_TRUE(FlushLog());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, testing::Not(testing::HasSubstr("secret")));
  EXPECT_THAT(log, testing::Not(testing::HasSubstr("libprotobuf")));
}

}  // namespace
}  // namespace heed
