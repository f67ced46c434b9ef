// grpc.health.v1, the pulse and the listener's probe, reflection, and the end of a server.
#include <sys/socket.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/observation/log.h"
#include "server/transport/listener_probe.h"
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

TEST(Pulse, BeatsForAsLongAsTheServerLives) {
  World world(OneClassifier());
  EXPECT_TRUE(Eventually([&] { return world.server().beats() >= 2; }));
}

// Whether the server at the channel's end has answered one.
bool Answered(const std::shared_ptr<grpc::Channel>& channel) {
  std::promise<bool> ended;
  Pulse pulse(channel);
  pulse.Beat([&](bool answered) { ended.set_value(answered); });
  return ended.get_future().get();
}

TEST(Pulse, CountsOnlyWhatTheServerAnswers) {
  auto world = World::Ready(OneClassifier());
  EXPECT_TRUE(Answered(world->channel()));
  EXPECT_FALSE(Answered(grpc::CreateChannel("unix:/nowhere", grpc::InsecureChannelCredentials())));
}

// ------------------------------------------------------------------------------------------------- the
// listener

TEST(ListenerProbe, FindsTheListenerFromThisHost) {
  EXPECT_EQ(DialedAddress("127.0.0.1:0", 8461), "127.0.0.1:8461");
  EXPECT_EQ(DialedAddress("0.0.0.0:8461", 8461), "127.0.0.1:8461");
  EXPECT_EQ(DialedAddress("[::]:0", 8461), "[::1]:8461");
  EXPECT_EQ(DialedAddress("localhost:0", 8461), "localhost:8461");
  EXPECT_EQ(DialedAddress("unix:/run/heed.sock", 1), "unix:/run/heed.sock");
}

TEST(ListenerProbe, TwoFailuresInARowAreDownAndOneSuccessIsUp) {
  std::deque<bool> answers = {false, true, false, false, false, true, true, false};
  std::vector<std::pair<size_t, bool>> changes;  // and how many answers were left
  std::promise<void> asked_all;
  {
    ListenerProbe probe(
        {.every = Duration::zero(), .failures = 2},
        [&](std::stop_token stop) {
          if (answers.empty()) {
            asked_all.set_value();
            while (!stop.stop_requested()) std::this_thread::yield();
            return false;
          }
          const bool answer = answers.front();
          answers.pop_front();
          return answer;
        },
        [&](bool up) { changes.emplace_back(answers.size(), up); });
    asked_all.get_future().wait();
  }
  EXPECT_EQ(changes, (std::vector<std::pair<size_t, bool>>{{4, false}, {2, true}}));
}

TEST(ListenerProbe, IsAnsweredOverAUnixSocketToo) {
  const std::string address = Cat("unix:", testing::TempDir(), "heed-probe-", getpid(), ".sock");
  config::v1::ServerConfig config;
  config.set_address(address);
  config.set_metrics_address("");
  config.set_threads(1);
  auto* model = config.add_models();
  model->set_name("m");
  model->set_folder("nowhere");
  auto server = Server::Listen(*WithModels(config));
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(AnswersAt(DialedAddress(address, (*server)->port()), seconds(20), {}));
  EXPECT_FALSE(AnswersAt("unix:/nowhere", milliseconds(1), {}));
}

// The process's socket that listens on this port.
int ListeningSocket(int port) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t size = sizeof(listens);
    sockaddr_in address{};
    socklen_t address_size = sizeof(address);
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens &&
        getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &address_size) == 0 &&
        ntohs(address.sin_port) == port)
      return descriptor;
  }
  return -1;
}

// Who is connected already can still ask.
TEST(ListenerProbe, AServerThatTakesNoMoreConnectionsIsNotServing) {
  config::v1::ServerConfig config;
  config.set_address("127.0.0.1:0");
  config.set_metrics_address("127.0.0.1:0");
  config.set_threads(1);
  auto* model = config.add_models();
  model->set_name("m");
  model->set_folder("nowhere");
  auto server =
      *Server::Listen(*WithModels(config), [](const ModelSpec&) { return WithBytes(NewFakeClassifier()); },
                      {.every = milliseconds(1), .patience = seconds(1), .failures = 2});
  ASSERT_TRUE(server->Load().ok());
  auto stub = grpc::health::v1::Health::NewStub(NewChannel(server->port()));
  const auto status = [&](const std::string& name) {
    HealthCheckResponse response;
    EXPECT_TRUE(stub->Check(NewContext().get(), Named(name), &response).ok());
    return response.status();
  };
  const auto gauge = [&] {
    return MetricSum(
        AskPort(server->metrics_port(), "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        "heed_listener_up");
  };
  EXPECT_TRUE(Eventually([&] { return status("") == HealthCheckResponse::SERVING && gauge() == 1; }));
  FlushLog();
  testing::internal::CaptureStderr();
  const int listener = ListeningSocket(server->port());
  ASSERT_GE(listener, 0);
  ASSERT_EQ(shutdown(listener, SHUT_RDWR), 0);
  EXPECT_TRUE(Eventually([&] { return status("") == HealthCheckResponse::NOT_SERVING; }));
  EXPECT_EQ(status("m"), HealthCheckResponse::SERVING);
  EXPECT_TRUE(Eventually([&] { return gauge() == 0; }));
  server.reset();
  EXPECT_TRUE(FlushLog());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("\"event\":\"listener down\""));
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

// They are ended by the server, not by their deadlines.
TEST(Drain, IsNotHeldUpByWhoWatchesOrReflects) {
  auto world = World::Ready(OneClassifier(), [](config::v1::ServerConfig& config) {
    config.mutable_shutdown()->set_grace_seconds(3600);
  });
  auto watch_context = NewContext();
  auto watch = world->health()->Watch(watch_context.get(), Named(""));
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  grpc::GenericStub stub(world->channel());
  grpc::ClientContext reflect_context;
  grpc::CompletionQueue queue;
  auto reflecting = stub.PrepareCall(
      &reflect_context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  void* tag;
  bool ok = false;
  reflecting->StartCall(nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  const grpc::Slice request(std::string("\x3a\x01*", 3));
  reflecting->Write(grpc::ByteBuffer(&request, 1), nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::ByteBuffer answer;
  reflecting->Read(&answer, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);  // and it stays open
  world->server().Drain();
  while (watch->Read(&response)) {
  }
  EXPECT_EQ(watch->Finish().error_code(), grpc::UNAVAILABLE);
  grpc::Status status;
  reflecting->Finish(&status, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_FALSE(status.ok());
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
}

// ------------------------------------------------------------------------------------------------- torn down
// early

// Each ends its server at some point while others use it; what they use after its end, ASan sees.

TEST(Teardown, OfAServerThatHasNoPort) {
  World taken(OneClassifier(), WithMetrics);
  for (bool metrics : {true, false}) {
    config::v1::ServerConfig config;
    config.set_address(metrics ? "127.0.0.1:0" : taken.address());
    config.set_metrics_address(metrics ? Cat("127.0.0.1:", taken.server().metrics_port()) : "127.0.0.1:0");
    config.set_threads(1);
    auto* model = config.add_models();
    model->set_name("m");
    model->set_folder("nowhere");
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
      auto watch = stub->Watch(context.get(), Named("m"));
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
  EXPECT_TRUE(Eventually([&] { return Check(*world, "") == HealthCheckResponse::NOT_SERVING; }));
  world.reset();
}

}  // namespace
}  // namespace heed
