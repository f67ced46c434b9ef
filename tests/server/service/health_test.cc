// grpc.health.v1, reflection, and the end of a server.
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/transport/pulse.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthCheckRequest Named(const std::string& name) {
  HealthCheckRequest request;
  request.set_service(name);
  return request;
}

// The status, or UNKNOWN where the call fails with `code`.
HealthCheckResponse::ServingStatus Check(World& world, const std::string& name,
                                         grpc::StatusCode code = grpc::OK) {
  HealthCheckResponse response;
  EXPECT_EQ(world.health()->Check(NewContext().get(), Named(name), &response).error_code(), code) << name;
  return response.status();
}

World::Models OneClassifier() {
  return {{"m", [] { return WithBytes(NewFakeClassifier()); }}};
}

TEST(Health, KnowsTheServerTheServicesAndTheModels) {
  World world(OneClassifier());
  for (const char* name : {"", "heed.v1.Inference", "heed.v1.Models", "m"})
    EXPECT_EQ(Check(world, name), HealthCheckResponse::NOT_SERVING);
  ASSERT_TRUE(world.server().Load().ok());
  for (const char* name : {"", "heed.v1.Inference", "heed.v1.Models", "m"})
    EXPECT_EQ(Check(world, name), HealthCheckResponse::SERVING);
  Check(world, "nobody", grpc::NOT_FOUND);
  Check(world, std::string(201, 'x'), grpc::INVALID_ARGUMENT);
}

TEST(Health, AWatchIsToldOfEveryChangeAndEndsWithTheServer) {
  World world(OneClassifier());
  auto context = NewContext();
  auto watch = world.health()->Watch(context.get(), Named("m"));
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  ASSERT_TRUE(world.server().Load().ok());
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  std::jthread drain([&] { world.server().Drain(); });
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::UNAVAILABLE);
}

TEST(Health, AWatchOfANameThatNobodyKnowsStaysOpen) {
  auto world = World::Ready(OneClassifier());
  auto context = NewContext();
  auto watch = world->health()->Watch(context.get(), Named("nobody"));
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  context->TryCancel();
  EXPECT_FALSE(watch->Read(&response));
}

TEST(Health, TakesSoManyWatchesAndNoMore) {
  auto world = World::Ready(OneClassifier(), [](config::v1::ServerConfig& config) {
    config.mutable_limits()->set_health_watches(2);
  });
  auto stub = world->health();
  auto first_context = NewContext(), second_context = NewContext(), third_context = NewContext(),
       fourth_context = NewContext();
  HealthCheckResponse response;
  auto first = stub->Watch(first_context.get(), Named(""));
  auto second = stub->Watch(second_context.get(), Named(""));
  ASSERT_TRUE(first->Read(&response) && second->Read(&response));
  auto third = stub->Watch(third_context.get(), Named(""));
  EXPECT_FALSE(third->Read(&response));
  EXPECT_EQ(third->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
  first_context->TryCancel();
  EXPECT_FALSE(first->Read(&response));
  EXPECT_TRUE(Eventually([&] {  // its place is free again
    auto context = NewContext();
    auto watch = stub->Watch(context.get(), Named(""));
    const bool taken = watch->Read(&response);
    context->TryCancel();
    return taken;
  }));
}

TEST(Pulse, IsAnsweredByTheServer) {
  auto world = World::Ready(OneClassifier());
  std::promise<void> ended;
  Pulse pulse(world->channel());
  pulse.Beat([&] { ended.set_value(); });
  EXPECT_EQ(ended.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

// ---------------------------------------------------------------------------------------------- reflection

// Calls the reflection service by bytes: its messages are not ours. list_services is field 7 of the request,
// a string.
grpc::Status ListServices(World& world, std::string* answer) {
  grpc::GenericStub stub(world.channel());
  auto context = NewContext();
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(context.get(),
                               "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  auto step = [&] {
    void* tag;
    bool ok = false;
    queue.Next(&tag, &ok);
    return ok;
  };
  call->StartCall(nullptr);
  bool ok = step();
  const grpc::Slice request(std::string("\x3a\x01*", 3));
  if (ok) call->WriteLast(grpc::ByteBuffer(&request, 1), grpc::WriteOptions(), nullptr), ok = step();
  grpc::ByteBuffer response;
  if (ok) call->Read(&response, nullptr), ok = step();
  if (ok) {
    std::vector<grpc::Slice> slices;
    if (response.Dump(&slices).ok()) {
      for (const auto& slice : slices)
        answer->append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  step();
  queue.Shutdown();
  return status;
}

TEST(Reflection, ListsWhatIsServed) {
  auto world = World::Ready(OneClassifier());
  std::string answer;
  ASSERT_TRUE(ListServices(*world, &answer).ok());
  for (const char* service : {"heed.v1.Inference", "heed.v1.Models", "grpc.health.v1.Health"})
    EXPECT_THAT(answer, testing::HasSubstr(service));
  EXPECT_THAT(answer, testing::Not(testing::HasSubstr("Sessions")));
}

TEST(Reflection, CanBeTurnedOff) {
  auto world =
      World::Ready(OneClassifier(), [](config::v1::ServerConfig& config) { config.set_reflection(false); });
  std::string answer;
  EXPECT_EQ(ListServices(*world, &answer).error_code(), grpc::UNIMPLEMENTED);
}

// --------------------------------------------------------------------------------------------------- drain

// The writer waits for the test before its second token.
TEST(Drain, FinishesWhatWasAdmittedAndRefusesTheRest) {
  std::promise<void> go;
  std::shared_future<void> gone(go.get_future());
  World::Models models = OneClassifier();
  models["writer"] = [gone] {
    auto model = NewFakeWriter();
    model->head = [gone, head = model->head](const std::vector<int32_t>& history) {
      if (history.size() == 4) gone.wait_for(std::chrono::seconds(30));
      return head(history);
    };
    return WithBytes(std::move(model));
  };
  auto world = World::Ready(models);
  auto context = NewContext();
  auto stream = world->inference()->Generate(context.get(), GreedyRequest("writer", "abc", 3));
  v1::GenerateEvent event;
  ASSERT_TRUE(stream->Read(&event) && stream->Read(&event));
  EXPECT_EQ(event.piece().text(), "d");
  std::jthread drain([&] { world->server().Drain(); });
  EXPECT_TRUE(Eventually([&] {
    v1::ListModelsResponse list;
    return world->models()->ListModels(NewContext().get(), {}, &list).error_code() == grpc::UNAVAILABLE;
  }));
  go.set_value();
  std::string text;
  while (stream->Read(&event)) text += event.piece().text();
  EXPECT_EQ(text, "ef");
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(Drain, EndsWhatIsLeftAfterTheGrace) {
  auto world = World::Ready({{"writer", [] { return WithBytes(NewFakeWriter(60'000)); }}},
                            [](config::v1::ServerConfig& config) {
                              WithMetrics(config);
                              config.mutable_shutdown()->set_grace_seconds(0);
                            });
  auto context = NewContext();
  auto stream = world->inference()->Generate(context.get(), EndlessRequest());
  v1::GenerateEvent event;
  ASSERT_TRUE(stream->Read(&event) && stream->Read(&event));  // and no more: so it cannot finish
  std::jthread drain([&] { world->server().Drain(); });
  EXPECT_TRUE(Eventually([&] { return MetricSum(*world, "heed_request_failure_total") == 1; }));
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::UNAVAILABLE);
}

TEST(Drain, IsHurriedByASecondSignal) {
  auto world = World::Ready({{"writer", [] { return WithBytes(NewFakeWriter(60'000)); }}},
                            [](config::v1::ServerConfig& config) {
                              config.mutable_shutdown()->set_delay_seconds(600);
                              config.mutable_shutdown()->set_grace_seconds(3600);
                            });
  auto context = NewContext();
  auto stream = world->inference()->Generate(context.get(), EndlessRequest());
  v1::GenerateEvent event;
  ASSERT_TRUE(stream->Read(&event) && stream->Read(&event));
  auto drained = std::async(std::launch::async, [&] { world->server().Drain(); });
  world->server().HurryDrain();
  while (stream->Read(&event)) {
  }
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_EQ(drained.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(Drain, IsNotHeldUpByWhoWatchesOrReflects) {
  auto world = World::Ready(OneClassifier(), [](config::v1::ServerConfig& config) {
    config.mutable_shutdown()->set_grace_seconds(3600);
  });
  auto context = NewContext();
  auto watch = world->health()->Watch(context.get(), Named(""));
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  auto drained = std::async(std::launch::async, [&] { world->server().Drain(); });
  EXPECT_EQ(drained.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

}  // namespace
}  // namespace heed
