// grpc.health.v1.
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"
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

// Until the server ends, which it is told in its own words.
TEST(Health, AWatchOfANameThatNobodyKnowsStaysOpen) {
  World world(OneClassifier());
  auto context = NewContext();
  auto watch = world.health()->Watch(context.get(), Named("nobody"));
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  ASSERT_TRUE(world.server().Load().ok());
  world.server().Drain();
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::UNAVAILABLE);
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

}  // namespace
}  // namespace heed
