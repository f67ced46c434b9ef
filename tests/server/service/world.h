// A real server on a real port with small models in it, and real clients.
#ifndef HEED_TESTS_SERVER_SERVICE_WORLD_H_
#define HEED_TESTS_SERVER_SERVICE_WORLD_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/text/bytes_tokenizer.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "heed/v1/inference.grpc.pb.h"
#include "heed/v1/models.grpc.pb.h"
#include "heed/v1/server.grpc.pb.h"
#include "server/config/config.h"
#include "server/service/server.h"
#include "tests/server/fakes.h"
#include "tests/server/observation/exposition.h"

namespace heed {

// For what happens on other threads: true as soon as it is so, false if it is not within 20 s.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

// A model of 64 bytes at most, which answers with so many numbers.
inline ModelInfo FakeInfo(Head head, int64_t width) {
  ModelInfo info;
  info.head = head;
  info.vocab_size = 256;
  info.output_width = width;
  info.max_tokens = 64;
  info.attention = "full";
  return info;
}
inline std::unique_ptr<FakeModel> NewFake(const ModelInfo& info, FakeHead head) {
  auto model = std::make_unique<FakeModel>(2, info);
  model->head = std::move(head);
  return model;
}

// "yes" for texts with an even number of bytes, "no" for the others.
inline std::unique_ptr<FakeModel> NewFakeClassifier() {
  ModelInfo info = FakeInfo(Head::kClassification, 2);
  info.labels = {"no", "yes"};
  return NewFake(info, [](const auto& history) {
    return history.size() % 2 == 0 ? std::vector<float>{-1, 1} : std::vector<float>{1, -1};
  });
}

// 'a' after 0 tokens, 'b' after 1, ...
inline std::vector<float> NextLetter(const std::vector<int32_t>& history) {
  std::vector<float> logits(256);
  logits['a' + history.size() % 26] = 20;
  return logits;
}

// Goes on with the alphabet.
inline std::unique_ptr<FakeModel> NewFakeWriter(int64_t max_tokens = 64) {
  ModelInfo info = FakeInfo(Head::kLanguageModel, 256);
  info.architecture = Architecture::kDecoder;
  info.decode = DecodeClass::kExact;
  info.max_tokens = max_tokens;
  return NewFake(info, NextLetter);
}

// A vector of four numbers, whatever it reads.
inline std::unique_ptr<FakeModel> NewFakeEmbedder() {
  return NewFake(FakeInfo(Head::kEmbedding, 4), [](const auto&) { return std::vector<float>{3, 0, 4, 0}; });
}

// The next letter of the alphabet, in every place. '_' is the mask.
inline std::unique_ptr<FakeModel> NewFakeFiller() {
  ModelInfo info = FakeInfo(Head::kLanguageModel, 256);
  info.mask_token_id = '_';
  return NewFake(info, NextLetter);
}

inline LoadedModel WithBytes(std::unique_ptr<const Model> model) {
  return {.model = std::move(model), .tokenizer = NewBytesTokenizer(), .description = "A model of a test."};
}

// Where a model waits for the test.
class Gate {
 public:
  void Pass() {
    ++reached_;
    opened_.wait_for(std::chrono::seconds(30));  // a test that fails ends all the same
  }
  int reached() const { return reached_; }
  void Open() { open_.set_value(); }

 private:
  std::promise<void> open_;
  const std::shared_future<void> opened_{open_.get_future()};
  std::atomic<int> reached_{0};
};

// A connection of its own, made.
inline std::shared_ptr<grpc::Channel> NewChannel(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);  // now and then a connect() fails
  auto channel =
      grpc::CreateCustomChannel(Cat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments);
  EXPECT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20)));
  return channel;
}

// A server on a port of its own; no metrics, whose port takes 2 s to close: only where a test reads them.
inline config::v1::ServerConfig NewConfig() {
  config::v1::ServerConfig config;
  config.set_address("127.0.0.1:0");
  config.set_metrics_address("");
  config.set_threads(1);
  return config;
}
// A model that the test's loader makes.
inline void AddModel(const std::string& name, config::v1::ServerConfig* config) {
  auto* model = config->add_models();
  model->set_name(name);
  model->set_folder("nowhere");
}

class World {
 public:
  using Models = std::map<std::string, std::function<absl::StatusOr<LoadedModel>()>>;

  // Listens; Load() makes it ready. Models of the config beside those given are loaded from their folders.
  explicit World(
      Models models,
      const std::function<void(config::v1::ServerConfig&)>& change = [](config::v1::ServerConfig&) {})
      : models_(std::move(models)) {
    config::v1::ServerConfig config = NewConfig();
    for (const auto& [name, make] : models_) AddModel(name, &config);
    change(config);
    auto server = Server::Listen(*WithModels(config), [this](const ModelSpec& spec) {
      const auto made = models_.find(spec.name);
      return made == models_.end() ? LoadFromFolder(spec) : made->second();
    });
    if (!server.ok()) ADD_FAILURE() << server.status();
    server_ = *std::move(server);
    channel_ = NewChannel(server_->port());
  }

  // A server with all its models ready.
  static std::unique_ptr<World> Ready(
      Models models,
      const std::function<void(config::v1::ServerConfig&)>& change = [](config::v1::ServerConfig&) {}) {
    auto world = std::make_unique<World>(std::move(models), change);
    EXPECT_TRUE(world->server().Load().ok());
    return world;
  }

  Server& server() { return *server_; }
  std::string address() const { return Cat("127.0.0.1:", server_->port()); }
  std::shared_ptr<grpc::Channel> channel() { return channel_; }
  std::unique_ptr<v1::Inference::Stub> inference() { return v1::Inference::NewStub(channel_); }
  std::unique_ptr<v1::Models::Stub> models() { return v1::Models::NewStub(channel_); }
  std::unique_ptr<grpc::health::v1::Health::Stub> health() {
    return grpc::health::v1::Health::NewStub(channel_);
  }

 private:
  Models models_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Model "m", a classifier.
inline World::Models OneClassifier() {
  return {{"m", [] { return WithBytes(NewFakeClassifier()); }}};
}

// A context that gives up after 20 s, so that a test that would hang fails.
inline std::unique_ptr<grpc::ClientContext> NewContext() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  return context;
}

// The description of the one model, or of the model of a name.
inline v1::ModelDescription DescriptionOf(World& world, const std::string& name = "") {
  v1::DescribeModelRequest request;
  request.set_model(name);
  v1::ModelDescription description;
  const grpc::Status status = world.models()->DescribeModel(NewContext().get(), request, &description);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return description;
}

inline v1::GenerateRequest GreedyRequest(const std::string& model, const std::string& prompt,
                                         int max_tokens) {
  v1::GenerateRequest request;
  request.mutable_target()->set_model(model);
  request.add_inputs()->set_text(prompt);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  return request;
}

// A text too long to be finished while nobody reads it: its pieces are large, so that a paused reader soon
// pauses the model.
inline v1::GenerateRequest EndlessRequest() {
  v1::GenerateRequest request = GreedyRequest("writer", "abc", 50'000);
  request.mutable_details()->set_logprobs(true);
  request.mutable_details()->set_top_logprobs(20);
  return request;
}

inline void WithMetrics(config::v1::ServerConfig& config) { config.set_metrics_address("127.0.0.1:0"); }
// One input is worked on, so each is a batch of its own.
inline void OneAtATime(config::v1::ServerConfig& config) {
  WithMetrics(config);
  config.mutable_scheduling()->set_max_running(1);
}

// All that a port answers to `request`, until it closes the connection.
inline std::string AskPort(int port, const std::string& request) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET,
                      .sin_port = htons(static_cast<uint16_t>(port)),
                      .sin_addr = {htonl(INADDR_LOOPBACK)},
                      .sin_zero = {}};
  EXPECT_EQ(connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(write(descriptor, request.data(), request.size()), std::ssize(request));
  std::string answer;
  char bytes[4096];
  for (ssize_t n; (n = read(descriptor, bytes, sizeof(bytes))) > 0;) answer.append(bytes, n);
  close(descriptor);
  return answer;
}

inline std::string Metrics(const Server& server) {
  return AskPort(server.metrics_port(), "GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
}
inline std::string Metrics(World& world) { return Metrics(world.server()); }

inline double MetricSum(World& world, const std::string& family,
                        const std::vector<std::string>& labels = {}) {
  return MetricSum(Metrics(world), family, labels);
}

}  // namespace heed

#endif  // HEED_TESTS_SERVER_SERVICE_WORLD_H_
