// Calls of every kind at once: afterwards the numbers add up, and nothing is left.
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/service/cases.h"

namespace heed {
namespace {

constexpr int kClients = 8;
constexpr int kCallsOfAClient = 25;

// Every model, and one whose pass never ends unless its jobs have to go.
World::Models EveryModelAndAnEndlessOne() {
  World::Models models = EveryModel();
  models["endless"] = [] {
    auto model = NewFakeClassifier();
    model->layers = std::numeric_limits<int>::max();
    return WithBytes(std::move(model));
  };
  return models;
}

// How the calls of all clients ended, as they saw it.
class Tally {
 public:
  void Add(const grpc::Status& status) {
    std::lock_guard lock(mutex_);
    ++ends_[status.error_code()];
  }
  int operator[](grpc::StatusCode code) {
    std::lock_guard lock(mutex_);
    return ends_[code];
  }

 private:
  std::mutex mutex_;
  std::map<grpc::StatusCode, int> ends_;
};

class Client {
 public:
  Client(World* world, Tally* tally)
      : world_(world), tally_(tally), stub_(v1::Inference::NewStub(NewChannel(world->server().port()))) {}

  // The i-th kind of call, of as many as there are.
  void Call(int i) {
    const Rpc& rpc = EveryRpc()[i % EveryRpc().size()];
    switch (i / EveryRpc().size() % 6) {
      case 0:
        return Ask(rpc, {.inputs = {Text("good"), Text("fine"), Text("")}}, seconds(20));
      case 1:
        return Ask(rpc, {.inputs = {Text(std::string(65, 'x'))}}, seconds(20));
      case 2:
        return Ask(rpc, For("nobody"), seconds(20));
      case 3:
        return AskAndCancel(rpc, {.inputs = {Text("fine")}});
      case 4:
        return i % 2 == 0 ? AskAndCancel(EveryRpc().front(), For("endless"))
                          : Ask(EveryRpc().front(), For("endless"), std::chrono::milliseconds(5));
      default:
        return Check();
    }
  }

 private:
  static Asked For(const std::string& model) {
    Asked asked{.inputs = {Text("fine")}};
    asked.target.set_model(model);
    return asked;
  }

  void Ask(const Rpc& rpc, const Asked& asked, std::chrono::milliseconds deadline) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    tally_->Add(rpc.ask(*stub_, context, asked).status);
  }

  // Before, while or after it is answered.
  void AskAndCancel(const Rpc& rpc, const Asked& asked) {
    auto context = NewContext();
    std::jthread cancel([&] { context->TryCancel(); });
    tally_->Add(rpc.ask(*stub_, *context, asked).status);
  }

  void Check() {
    grpc::health::v1::HealthCheckResponse health;
    EXPECT_TRUE(world_->health()->Check(NewContext().get(), {}, &health).ok());
    v1::ListModelsResponse list;
    EXPECT_TRUE(world_->models()->ListModels(NewContext().get(), {}, &list).ok());
  }

  World* const world_;
  Tally* const tally_;
  const std::unique_ptr<v1::Inference::Stub> stub_;
};

TEST(AStorm, LeavesNothingBehindAndNumbersThatAddUp) {
  auto world = World::Ready(EveryModelAndAnEndlessOne(), WithMetrics);
  Tally tally;
  {
    std::vector<std::jthread> clients;
    for (int c = 0; c < kClients; ++c) {
      clients.emplace_back([&, c] {
        Client client(world.get(), &tally);
        for (int i = 0; i < kCallsOfAClient; ++i) client.Call(c * kCallsOfAClient + i);
      });
    }
  }
  const std::string started = "grpc_server_started_total", handled = "grpc_server_handled_total";
  std::string metrics;
  EXPECT_TRUE(Eventually([&] {
    metrics = Metrics(*world);
    return MetricSum(metrics, started) == MetricSum(metrics, handled);
  })) << metrics;
  for (const char* method : {"Classify", "Embed", "Score", "Fill", "Generate", "ListModels", "Check"}) {
    EXPECT_GT(MetricSum(metrics, started, {MethodLabel(method)}), 0) << method;
    EXPECT_EQ(MetricSum(metrics, started, {MethodLabel(method)}),
              MetricSum(metrics, handled, {MethodLabel(method)}))
        << method;
  }
  for (const char* gauge : {"heed_calls_in_flight", "heed_num_requests_running", "heed_num_requests_waiting",
                            "heed_state_reserved_bytes"})
    EXPECT_EQ(MetricSum(metrics, gauge), 0) << gauge;

  // What nobody has cancelled ended at the server as its client saw it.
  EXPECT_GT(tally[grpc::OK], 0);
  EXPECT_EQ(MetricSum(metrics, handled, {CodeLabel(grpc::INVALID_ARGUMENT)}), tally[grpc::INVALID_ARGUMENT]);
  EXPECT_EQ(MetricSum(metrics, handled, {CodeLabel(grpc::NOT_FOUND)}), tally[grpc::NOT_FOUND]);
  EXPECT_EQ(MetricSum(metrics, handled, {CodeLabel(grpc::INTERNAL)}), 0);
  EXPECT_EQ(MetricSum(metrics, handled, {CodeLabel(grpc::UNKNOWN)}), 0);
  for (const Rpc& rpc : EveryRpc()) {
    EXPECT_TRUE(rpc.Ask(*world, {.inputs = {Text("fine")}}).status.ok()) << rpc.name;
  }
}

}  // namespace
}  // namespace heed
