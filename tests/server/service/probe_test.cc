// What keeps the server awake, and what tells whether new clients reach it.
#include <sys/socket.h>

#include <deque>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/observation/log.h"
#include "server/transport/listener_probe.h"
#include "server/transport/pulse.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using grpc::health::v1::HealthCheckResponse;

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
  config::v1::ServerConfig config = NewConfig();
  config.set_address(address);
  AddModel("m", &config);
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
  config::v1::ServerConfig config = NewConfig();
  WithMetrics(config);
  AddModel("m", &config);
  auto server =
      *Server::Listen(*WithModels(config), [](const ModelSpec&) { return WithBytes(NewFakeClassifier()); },
                      {.every = milliseconds(1), .patience = seconds(1), .failures = 2});
  ASSERT_TRUE(server->Load().ok());
  auto stub = grpc::health::v1::Health::NewStub(NewChannel(server->port()));
  const auto status = [&](const std::string& name) {
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(name);
    HealthCheckResponse response;
    EXPECT_TRUE(stub->Check(NewContext().get(), request, &response).ok());
    return response.status();
  };
  const auto gauge = [&] { return MetricSum(Metrics(*server), "heed_listener_up"); };
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

}  // namespace
}  // namespace heed
