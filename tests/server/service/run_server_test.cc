// The server as a process: it ends by signals, and with success.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "server/config/config.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

// One model that cannot be loaded is enough to serve: health answers.
config::v1::ServerConfig SmallestConfig(bool strict) {
  config::v1::ServerConfig config;
  config.set_address(Cat("unix:", testing::TempDir(), "heed-", getpid(), ".sock"));
  config.set_metrics_address("");
  config.set_strict(strict);
  config.set_threads(1);
  auto* model = config.add_models();
  model->set_name("none");
  model->set_folder("/nowhere");
  return config;
}

void BlockSigterm() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

bool Serving(const std::string& address) {
  auto stub =
      grpc::health::v1::Health::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::health::v1::HealthCheckResponse response;
  return stub->Check(NewContext().get(), {}, &response).ok() &&
         response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

// Serves, sends itself a SIGTERM as soon as it is ready, and ends as `heed serve` does.
[[noreturn]] void ServeUntilSigterm() {
  BlockSigterm();
  const config::v1::ServerConfig config = SmallestConfig(/*strict=*/false);
  std::jthread client([&] {
    EXPECT_TRUE(Eventually([&] { return Serving(config.address()); }));
    kill(getpid(), SIGTERM);
  });
  const absl::Status status = RunServer(config);
  client.join();
  std::exit(status.ok() ? 0 : 1);
}

[[noreturn]] void ServeWhatCannotBeLoaded() {
  const absl::Status status = RunServer(SmallestConfig(/*strict=*/true));
  std::exit(status.ok() ? 0 : 1);
}

TEST(RunServerDeathTest, EndsWithSuccessOnSigterm) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ServeUntilSigterm(), testing::ExitedWithCode(0), "\"event\":\"stopped\"");
}

TEST(RunServerDeathTest, EndsWithAnErrorIfAModelCannotBeLoaded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ServeWhatCannotBeLoaded(), testing::ExitedWithCode(1),
              "\"event\":\"model failed\",\"model\":\"none\"");
}

TEST(RunServer, ChecksTheConfigBeforeAnythingStarts) {
  config::v1::ServerConfig config = SmallestConfig(true);
  config.set_threads(-1);
  EXPECT_EQ(RunServer(config), absl::InvalidArgumentError("threads is -1, it must be 0 to 1024"));
  EXPECT_EQ(CheckServer(config).status(), absl::InvalidArgumentError("threads is -1, it must be 0 to 1024"));
}

}  // namespace
}  // namespace heed
