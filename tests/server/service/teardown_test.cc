// Servers that are torn down early. Each ends at some point while others use it; what they use after its end,
// ASan sees.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using grpc::health::v1::HealthCheckResponse;

TEST(Teardown, OfAServerThatHasNoPort) {
  World taken(OneClassifier(), WithMetrics);
  for (bool metrics : {true, false}) {
    config::v1::ServerConfig config = NewConfig();
    if (!metrics) config.set_address(taken.address());
    config.set_metrics_address(metrics ? Cat("127.0.0.1:", taken.server().metrics_port()) : "127.0.0.1:0");
    AddModel("m", &config);
    EXPECT_EQ(Server::Listen(*WithModels(config)).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// Calls of all kinds, made until they are told that the server has gone.
class Crowd {
 public:
  explicit Crowd(World& world) {
    Join([stub = world.models()] {
      v1::ListModelsResponse list;
      return stub->ListModels(NewContext().get(), {}, &list);
    });
    Join([stub = world.inference()] {
      v1::ClassifyRequest request;
      request.mutable_target()->set_model("m");
      for (int i = 0; i < 100; ++i) request.add_inputs()->set_text("good");
      v1::ClassifyResponse response;
      return stub->Classify(NewContext().get(), request, &response);
    });
    Join([stub = world.inference()] {
      auto context = NewContext();
      auto stream = stub->Generate(context.get(), EndlessRequest());
      for (v1::GenerateEvent event; stream->Read(&event);) {
      }
      return stream->Finish();
    });
    Join([stub = world.inference()] {  // goes in the middle
      auto context = NewContext();
      auto stream = stub->Generate(context.get(), EndlessRequest());
      v1::GenerateEvent event;
      if (stream->Read(&event)) context->TryCancel();
      while (stream->Read(&event)) {
      }
      const grpc::Status status = stream->Finish();
      return status.error_code() == grpc::CANCELLED ? grpc::Status::OK : status;
    });
    Join([stub = world.health()] {
      auto context = NewContext();
      auto watch = stub->Watch(context.get(), {});
      for (HealthCheckResponse response; watch->Read(&response);) {
      }
      return watch->Finish();
    });
  }

  // Until each has called once.
  bool IsThere() {
    return Eventually([&] { return calling_ == static_cast<int>(threads_.size()); });
  }

 private:
  template <typename Function>
  void Join(Function call) {
    threads_.emplace_back([this, call = std::move(call)](std::stop_token stop) {
      ++calling_;
      while (!stop.stop_requested()) call();
    });
  }

  std::atomic<int> calling_ = 0;
  std::vector<std::jthread> threads_;
};

World::Models ReaderAndWriter() {
  World::Models models = OneClassifier();
  models["writer"] = [] { return WithBytes(NewFakeWriter(60'000)); };
  return models;
}

TEST(Teardown, BeforeItsModelsAreLoaded) {
  auto world = std::make_unique<World>(ReaderAndWriter(), WithMetrics);
  Crowd crowd(*world);
  EXPECT_TRUE(crowd.IsThere());
  world.reset();
}

TEST(Teardown, OfAServerWhoseModelCannotBeLoaded) {
  World::Models models = ReaderAndWriter();
  models["none"] = []() -> absl::StatusOr<LoadedModel> { return absl::NotFoundError("no file"); };
  auto world = std::make_unique<World>(std::move(models));
  Crowd crowd(*world);
  EXPECT_TRUE(crowd.IsThere());
  EXPECT_FALSE(world->server().Load().ok());
  world.reset();
}

TEST(Teardown, WhileItServes) {
  auto world = World::Ready(ReaderAndWriter(), WithMetrics);
  Crowd crowd(*world);
  EXPECT_TRUE(crowd.IsThere());
  world.reset();
}

TEST(Teardown, WhileAnotherThreadDrainsIt) {
  auto world = World::Ready(ReaderAndWriter(), [](config::v1::ServerConfig& config) {
    config.mutable_shutdown()->set_delay_seconds(600);
    config.mutable_shutdown()->set_grace_seconds(3600);
  });
  Crowd crowd(*world);
  EXPECT_TRUE(crowd.IsThere());
  std::jthread drain([&server = world->server()] { server.Drain(); });
  EXPECT_TRUE(Eventually([&] {
    HealthCheckResponse response;
    world->health()->Check(NewContext().get(), {}, &response);
    return response.status() == HealthCheckResponse::NOT_SERVING;
  }));
  world.reset();
}

}  // namespace
}  // namespace heed
