// The end of a server that was told to end, and reflection, which must not hold it up.
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/bytes_call.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

// The reflection service's messages are not ours. list_services is field 7 of the request, a string.
constexpr const char* kReflection = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
const std::string kListServices("\x3a\x01*", 3);

TEST(Reflection, ListsWhatIsServed) {
  auto world = World::Ready(OneClassifier());
  BytesCall call(*world, kReflection);
  ASSERT_TRUE(call.Write(kListServices));
  const std::string answer = call.Read().value_or("");
  EXPECT_TRUE(call.WritesDone());
  EXPECT_TRUE(call.Finish().ok());
  for (const char* service : {"heed.v1.Inference", "heed.v1.Models", "grpc.health.v1.Health"})
    EXPECT_THAT(answer, testing::HasSubstr(service));
  EXPECT_THAT(answer, testing::Not(testing::HasSubstr("Sessions")));
}

TEST(Reflection, CanBeTurnedOff) {
  auto world =
      World::Ready(OneClassifier(), [](config::v1::ServerConfig& config) { config.set_reflection(false); });
  EXPECT_EQ(CallWith(*world, kReflection, &kListServices).error_code(), grpc::UNIMPLEMENTED);
}

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

// They are ended by the server, not by their deadlines.
TEST(Drain, IsNotHeldUpByWhoWatchesOrReflects) {
  auto world = World::Ready(OneClassifier(), [](config::v1::ServerConfig& config) {
    config.mutable_shutdown()->set_grace_seconds(3600);
  });
  auto context = NewContext();
  auto watch = world->health()->Watch(context.get(), {});
  grpc::health::v1::HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  BytesCall reflecting(*world, kReflection);
  ASSERT_TRUE(reflecting.Write(kListServices) && reflecting.Read());  // and it stays open
  world->server().Drain();
  while (watch->Read(&response)) {
  }
  EXPECT_EQ(watch->Finish().error_code(), grpc::UNAVAILABLE);
  const grpc::Status status = reflecting.Finish();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.error_code(), grpc::DEADLINE_EXCEEDED);
}

}  // namespace
}  // namespace heed
