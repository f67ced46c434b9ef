// What is no request at all: bytes that do not parse, calls without a message, compressed ones, methods that
// nobody has.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/api/answers.h"
#include "server/error.h"
#include "server/observation/log.h"
#include "server/service/library_logs.h"
#include "server/transport/wire.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

constexpr const char* kMethods[] = {"/heed.v1.Inference/Classify",  "/heed.v1.Inference/Embed",
                                    "/heed.v1.Inference/Score",     "/heed.v1.Inference/Fill",
                                    "/heed.v1.Inference/Generate",  "/heed.v1.Models/DescribeModel",
                                    "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"};

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
  const std::string invalid_utf8 =
      std::string("\x0a\x04\x0a\x02\xff\xfe", 6);  // target.model, a proto3 string
  for (const char* method : kMethods) {
    for (const std::string& bytes : {std::string("\xff\xff\xff\xff"), std::string("\x0a\x7f", 2), deep}) {
      EXPECT_EQ(Call(*world, method, &bytes).error_code(), grpc::INVALID_ARGUMENT) << method;
    }
  }
  EXPECT_EQ(Call(*world, "/heed.v1.Inference/Classify", &invalid_utf8).error_code(), grpc::INVALID_ARGUMENT);
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

TEST(Wire, ErrorsCarryTheirFieldAndHint) {
  const absl::Status status =
      RetryAfter(AtField(absl::ResourceExhaustedError("full"), "inputs[2]"), std::chrono::milliseconds(5));
  EXPECT_EQ(FieldOf(status), "inputs[2]");
  EXPECT_EQ(ToGrpc(status).error_message(), "inputs[2]: full");
  EXPECT_EQ(ToError(status).message(), "full");
  EXPECT_EQ(ToError(status).code(), grpc::RESOURCE_EXHAUSTED);
}

TEST(Log, IsOneLineOfPlainCharacters) {
  testing::internal::CaptureStderr();
  LogInfo("model loaded", {{"model", "a\nb\x1b[31m\u2028\u202e\xff"}});
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_TRUE(std::all_of(line.begin(), line.end() - 1, [](unsigned char c) { return c >= 32 && c < 127; }))
      << line;
  EXPECT_THAT(line, testing::HasSubstr(
                        R"("severity":"info","event":"model loaded","model":"a\nb\u001b[31m\u2028\u202e)"));
}

TEST(Log, HoldsNoTextOfAClient) {
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
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::Not(testing::HasSubstr("secret")));
}

}  // namespace
}  // namespace heed
