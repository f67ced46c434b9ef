// The server as a process: it ends by signals, and with success.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/config/config.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using grpc::health::v1::HealthCheckResponse;

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

// Thousands of models, each of which takes a while to find out that its config.json, 4 MB of zeros, is no
// object: minutes of loading, and little memory.
config::v1::ServerConfig SlowToLoad() {
  config::v1::ServerConfig config = SmallestConfig(/*strict=*/false);
  const std::string folder = Cat(testing::TempDir(), "heed-slow");  // one for all runs
  std::filesystem::create_directory(folder);
  std::string zeros = "[0";
  while (zeros.size() < (4 << 20) - 10) zeros += ",0";
  std::ofstream(folder + "/config.json") << zeros << "]";
  for (int i = 0; i < 5000; ++i) {
    auto* model = config.add_models();
    model->set_name(Cat("slow-", i));
    model->set_folder(folder);
  }
  return config;
}

void BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

bool Says(const std::string& address, HealthCheckResponse::ServingStatus status) {
  auto stub =
      grpc::health::v1::Health::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  HealthCheckResponse response;
  return stub->Check(NewContext().get(), {}, &response).ok() && response.status() == status;
}

// Serves as `heed serve` does, sends itself each signal as soon as its health says what stands beside it, and
// ends.
struct Step {
  HealthCheckResponse::ServingStatus when;
  int signal;
};
[[noreturn]] void ServeAndSend(const config::v1::ServerConfig& config, const std::vector<Step>& steps) {
  BlockSignals();
  std::jthread client([&] {
    for (const Step& step : steps) {
      EXPECT_TRUE(Eventually([&] { return Says(config.address(), step.when); }));
      kill(getpid(), step.signal);
    }
  });
  const absl::Status status = RunServer(config);
  client.join();
  std::exit(status.ok() ? 0 : 1);
}

[[noreturn]] void ServeWhatCannotBeLoaded() {
  const absl::Status status = RunServer(SmallestConfig(/*strict=*/true));
  std::exit(status.ok() ? 0 : 1);
}

TEST(RunServerDeathTest, EndsWithSuccessOnSigtermAndOnSigint) {  // L12
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (int signal : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(ServeAndSend(SmallestConfig(false), {{HealthCheckResponse::SERVING, signal}}),
                testing::ExitedWithCode(0), "\"event\":\"stopped\"");
  }
}

TEST(RunServerDeathTest, EndsAtOnceAndWithSuccessOnSigtermWhileModelsLoad) {  // L13
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ServeAndSend(SlowToLoad(), {{HealthCheckResponse::NOT_SERVING, SIGTERM}}),
              testing::ExitedWithCode(0), "\"event\":\"stopped\",\"while\":\"loading\"");
}

// Without the second signal it would wait ten minutes for balancers to notice.
TEST(RunServerDeathTest, EndsSoonerOnASecondSigterm) {  // L12
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  config::v1::ServerConfig config = SmallestConfig(false);
  config.mutable_shutdown()->set_delay_seconds(600);
  EXPECT_EXIT(ServeAndSend(config, {{HealthCheckResponse::SERVING, SIGTERM},
                                    {HealthCheckResponse::NOT_SERVING, SIGTERM}}),
              testing::ExitedWithCode(0), "\"event\":\"stopped\"");
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
