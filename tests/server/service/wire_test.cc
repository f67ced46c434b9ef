// What is no request at all: bytes that do not parse, calls without a message, compressed ones, methods that
// nobody has, no HTTP/2.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/observation/log.h"
#include "server/service/library_logs.h"
#include "server/transport/utf8.h"
#include "tests/server/service/bytes_call.h"
#include "tests/server/service/raw_http2.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

constexpr const char* kMethods[] = {
    "/heed.v1.Inference/Classify",   "/heed.v1.Inference/Embed",       "/heed.v1.Inference/Score",
    "/heed.v1.Inference/Fill",       "/heed.v1.Inference/Generate",    "/heed.v1.Models/ListModels",
    "/heed.v1.Models/DescribeModel", "/heed.v1.Server/DescribeServer", "/heed.v1.Server/GetMetrics",
    "/heed.v1.Inference/Tokenize",   "/heed.v1.Inference/Detokenize",  "/heed.v1.Inference/Rerank",
    "/heed.v1.Inference/Answer",     "/grpc.health.v1.Health/Check",   "/grpc.health.v1.Health/Watch"};

TEST(Wire, BytesThatAreNoMessageAreTheCallersMistake) {
  auto world = World::Ready(OneClassifier());
  std::string deep;  // a group within a group within ...
  for (int i = 0; i < 200; ++i) deep += "\x0b";
  for (const char* method : kMethods) {
    for (const std::string& bytes : {std::string("\xff\xff\xff\xff"), std::string("\x0a\x7f", 2), deep}) {
      EXPECT_EQ(CallWith(*world, method, &bytes).error_code(), grpc::INVALID_ARGUMENT) << method;
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
  auto world = World::Ready(OneClassifier());
  v1::ClassifyRequest classify;
  classify.add_inputs()->set_text("good");
  classify.add_inputs()->mutable_pair()->set_second("TEXT");
  std::string bytes = WithInvalid(classify);
  EXPECT_EQ(CallWith(*world, "/heed.v1.Inference/Classify", &bytes).error_message(),
            "inputs[1].pair.second: it is not UTF-8");
  v1::GenerateRequest generate;
  generate.mutable_stopping()->add_stop("good");
  generate.mutable_stopping()->add_stop("TEXT");
  bytes = WithInvalid(generate);
  const grpc::Status status = CallWith(*world, "/heed.v1.Inference/Generate", &bytes);
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
  auto world = World::Ready(OneClassifier());
  for (const char* method : kMethods)
    EXPECT_EQ(CallWith(*world, method, nullptr).error_code(), grpc::INVALID_ARGUMENT) << method;
}

TEST(Wire, AMethodThatNobodyHasIsUnimplemented) {
  auto world = World::Ready(OneClassifier());
  for (const char* method : {"/heed.v1.Inference/Translate", "/nobody.Service/Method"}) {
    BytesCall call(*world, method);
    const grpc::Status status = call.Finish();
    EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED) << method;
    EXPECT_EQ(status.error_message(), "the server has no such method");
    EXPECT_TRUE(call.context().GetServerTrailingMetadata().contains("x-request-id"));
  }
}

TEST(Wire, CompressedRequestsAreRefused) {
  auto world = World::Ready(OneClassifier());
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
  auto world = World::Ready(OneClassifier());
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
  auto world = World::Ready(OneClassifier());
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
  auto world = World::Ready(OneClassifier());
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

TEST(Log, HoldsNoTextOfAClient) {
  FlushLog();
  testing::internal::CaptureStderr();
  {
    TameLibraryLogs();
    auto world = World::Ready(OneClassifier());
    const std::string invalid_utf8 = std::string("\x0a\x0c\x0a\x0asecret\xff\xfe\xfd\xfc", 14);
    EXPECT_EQ(CallWith(*world, "/heed.v1.Inference/Classify", &invalid_utf8).error_code(),
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
