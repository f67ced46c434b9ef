// Calls that end before their answer: cancelled, past their deadline, cut off, turned away. Rows L1, L2, L4,
// L5, L7 and L8 of the failure catalogue (reference/serving.md 2.4), on every RPC.
#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/service/cases.h"
#include "tests/server/service/relay.h"
#include "tests/server/service/watched_tokenizer.h"

namespace heed {
namespace {

using std::chrono::milliseconds;

const Asked kFine{.inputs = {Text("fine")}};

// Models whose pass never ends, unless its jobs have to go: an answer to anybody would show that something
// was computed that nobody wants. They count their layers.
class Endless {
 public:
  explicit Endless(const std::function<void(config::v1::ServerConfig&)>& change = WithMetrics)
      : world_(World::Ready(EveryModel([this](FakeModel& model) {
                              model.layers = std::numeric_limits<int>::max();
                              model.on_layer = [this](int layer) {
                                ++layers_;
                                if (layer == 0) ++passes_;
                              };
                            }),
                            change)) {}

  World& world() { return *world_; }
  int passes() const { return passes_; }
  // Until so many passes have begun, of calls that are inside.
  bool Computes(int passes = 1) {
    return Eventually([&] { return passes_ >= passes && MetricSum(*world_, "heed_calls_in_flight") > 0; });
  }
  // Until all is as before the first call.
  bool Rests() {
    return Eventually([&] {
      const std::string metrics = Metrics(*world_);
      double all = 0;
      for (const char* gauge : {"heed_calls_in_flight", "heed_num_requests_running",
                                "heed_num_requests_waiting", "heed_state_reserved_bytes"})
        all += MetricSum(metrics, gauge);
      return all == 0;
    });
  }
  // Nobody is inside and nothing is computed any more.
  void ExpectIdle() {
    EXPECT_TRUE(Rests());
    const int64_t layers = layers_;
    EXPECT_TRUE(Rests());
    EXPECT_EQ(layers_, layers);
  }

 private:
  std::atomic<int64_t> layers_{0};
  std::atomic<int> passes_{0};
  std::unique_ptr<World> world_;  // last: its models use the rest
};

// How many calls of this RPC the server has ended so.
double Handled(World& world, const Rpc& rpc, grpc::StatusCode code) {
  return MetricSum(Metrics(world), "grpc_server_handled_total", {CodeLabel(code), MethodLabel(rpc.name)});
}

// A call on a thread of its own, with its context.
class Call {
 public:
  Call(const std::shared_ptr<grpc::Channel>& channel, const Rpc& rpc, const Asked& asked = kFine,
       milliseconds deadline = seconds(20))
      : stub_(v1::Inference::NewStub(channel)) {
    context_.set_deadline(std::chrono::system_clock::now() + deadline);
    outcome_ =
        std::async(std::launch::async, [this, rpc, asked] { return rpc.ask(*stub_, context_, asked); });
  }
  void Cancel() { context_.TryCancel(); }
  Outcome Wait() { return outcome_.get(); }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<v1::Inference::Stub> stub_;
  std::future<Outcome> outcome_;  // last: ends before the rest goes
};

TEST(ACancelledCall, StopsInTheMiddleOfAPass) {  // L7
  Endless endless;
  int passes = 0;
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    Call call(endless.world().channel(), rpc);
    ASSERT_TRUE(endless.Computes(++passes));
    call.Cancel();
    EXPECT_EQ(call.Wait().status.error_code(), grpc::CANCELLED);
    endless.ExpectIdle();
    EXPECT_EQ(Handled(endless.world(), rpc, grpc::CANCELLED), 1);
  }
}

TEST(ACancelledCall, LeavesTheQueueUnread) {  // L7
  Endless endless(OneAtATime);
  int passes = 0;
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    Call first(endless.world().channel(), rpc);
    ASSERT_TRUE(endless.Computes(++passes));
    Call second(endless.world().channel(), rpc);
    ASSERT_TRUE(Eventually([&] { return MetricSum(endless.world(), "heed_num_requests_waiting") == 1; }));
    second.Cancel();
    EXPECT_EQ(second.Wait().status.error_code(), grpc::CANCELLED);
    EXPECT_TRUE(Eventually([&] { return MetricSum(endless.world(), "heed_num_requests_waiting") == 0; }));
    EXPECT_EQ(endless.passes(), passes);
    first.Cancel();
    first.Wait();
    endless.ExpectIdle();
  }
}

TEST(AClientThatIsKilled, IsAsOneThatCancels) {  // L7
  Endless endless;
  int passes = 0;
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    Relay relay(endless.world().server().port());
    Call call(NewChannel(relay.port()), rpc);
    ASSERT_TRUE(endless.Computes(++passes));
    relay.Cut();
    EXPECT_EQ(call.Wait().status.error_code(), grpc::UNAVAILABLE);
    endless.ExpectIdle();
    EXPECT_EQ(Handled(endless.world(), rpc, grpc::CANCELLED), 1);
  }
}

// Asks with longer and longer deadlines until the server itself has seen one pass: a short one may pass on
// the way to it.
void AskUntilADeadlineIsMissed(World& world, const Rpc& rpc) {
  const double before = MetricSum(world, "heed_deadline_missed_total");
  for (milliseconds deadline(100); MetricSum(world, "heed_deadline_missed_total") == before; deadline *= 2) {
    ASSERT_LT(deadline, seconds(20));
    const double inside = MetricSum(world, "heed_calls_in_flight");
    Call call(world.channel(), rpc, kFine, deadline);
    EXPECT_EQ(call.Wait().status.error_code(), grpc::DEADLINE_EXCEEDED);
    ASSERT_TRUE(Eventually([&] { return MetricSum(world, "heed_calls_in_flight") == inside; }));
  }
  EXPECT_GE(Handled(world, rpc, grpc::DEADLINE_EXCEEDED), 1);
}

TEST(ADeadline, EndsWhatIsComputed) {  // L5
  Endless endless;
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const int passes = endless.passes();
    AskUntilADeadlineIsMissed(endless.world(), rpc);
    EXPECT_GT(endless.passes(), passes);
    endless.ExpectIdle();
  }
}

TEST(ADeadline, ThatPassesInTheQueueLeavesNothingToCompute) {  // L4
  Endless endless(OneAtATime);
  int passes = 0;
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    Call first(endless.world().channel(), rpc);
    ASSERT_TRUE(endless.Computes(++passes));
    AskUntilADeadlineIsMissed(endless.world(), rpc);
    EXPECT_EQ(endless.passes(), passes);
    first.Cancel();
    first.Wait();
    endless.ExpectIdle();
  }
}

TEST(ADeadline, OfTheServersOwnHoldsForThoseWhoWouldWaitLonger) {  // L5
  Endless endless([](config::v1::ServerConfig& config) {
    WithMetrics(config);
    config.mutable_limits()->set_deadline_seconds(1);
  });
  std::vector<std::unique_ptr<Call>> calls;
  for (const Rpc& rpc : EveryRpc()) calls.push_back(std::make_unique<Call>(endless.world().channel(), rpc));
  for (const auto& call : calls) {
    ExpectTold(call->Wait().status, {.code = grpc::DEADLINE_EXCEEDED, .reason = "DEADLINE_EXCEEDED"});
  }
  endless.ExpectIdle();
}

TEST(ACancelStorm, LeavesOthersTheirAnswers) {  // L8
  std::atomic<int64_t> layers{0};
  World::Models models = EveryModel();
  models["endless"] = [&] {
    auto model = NewFakeClassifier();
    model->layers = std::numeric_limits<int>::max();
    model->on_layer = [&](int) { ++layers; };
    return WithBytes(std::move(model));
  };
  auto world = World::Ready(models);
  v1::Target endless;
  endless.set_model("endless");
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 100; ++i) {
    calls.push_back(std::make_unique<Call>(world->channel(), EveryRpc().front(),
                                           Asked{.inputs = {Text("fine")}, .target = endless}));
  }
  ASSERT_TRUE(Eventually([&] { return layers > 0; }));
  std::jthread storm([&] {
    for (const auto& call : calls) call->Cancel();
  });
  for (int i = 0; i < 20; ++i) {
    for (const Rpc& rpc : EveryRpc()) EXPECT_TRUE(rpc.Ask(*world, kFine).status.ok()) << rpc.name;
  }
  for (const auto& call : calls) EXPECT_EQ(call->Wait().status.error_code(), grpc::CANCELLED);
}

// ---------------------------------------------------------------------------------------------- turned away

TEST(ALimitOfRequests, TurnsTheNextAway) {
  Gate gate;
  auto world = World::Ready(EveryModel([&](FakeModel& model) { model.on_layer = [&](int) { gate.Pass(); }; }),
                            [](config::v1::ServerConfig& config) {
                              config.mutable_limits()->set_requests(2);
                              WithMetrics(config);
                            });
  const Rpc& classify = EveryRpc().front();
  Call first(world->channel(), classify), second(world->channel(), classify);
  ASSERT_TRUE(Eventually([&] { return MetricSum(*world, "heed_calls_in_flight") == 2; }));
  const Refusal refusal{.code = grpc::RESOURCE_EXHAUSTED,
                        .reason = "TOO_MANY_REQUESTS",
                        .message = "the server answers 2 requests at a time, no more"};
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const Outcome third = rpc.Ask(*world, kFine);
    ExpectTold(third.status, refusal);
    EXPECT_TRUE(third.trailers.contains("grpc-retry-pushback-ms"));
  }
  v1::ListModelsResponse list;
  ExpectTold(world->models()->ListModels(NewContext().get(), {}, &list), refusal);
  grpc::health::v1::HealthCheckResponse health;
  EXPECT_TRUE(world->health()->Check(NewContext().get(), {}, &health).ok());
  EXPECT_EQ(health.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  gate.Open();
  EXPECT_TRUE(first.Wait().status.ok());
  EXPECT_TRUE(second.Wait().status.ok());
  for (const Rpc& rpc : EveryRpc())
    EXPECT_TRUE(Eventually([&] { return rpc.Ask(*world, kFine).status.ok(); })) << rpc.name;
}

// gRPC's clients do so by themselves, as their service config says, as long as they have seen nothing of an
// answer.
TEST(ACallThatIsTurnedAway, IsTriedAgainByItsClient) {
  Gate gate;
  auto world = World::Ready(EveryModel([&](FakeModel& model) { model.on_layer = [&](int) { gate.Pass(); }; }),
                            [](config::v1::ServerConfig& config) {
                              config.mutable_limits()->set_requests(1);
                              WithMetrics(config);
                            });
  Call inside(world->channel(), EveryRpc().front());
  ASSERT_TRUE(Eventually([&] { return MetricSum(*world, "heed_calls_in_flight") == 1; }));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetServiceConfigJSON(R"({"methodConfig": [{"name": [{}], "retryPolicy": {
      "maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "0.1s", "backoffMultiplier": 1,
      "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]})");
  const auto channel =
      grpc::CreateCustomChannel(world->address(), grpc::InsecureChannelCredentials(), arguments);
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    EXPECT_EQ(Call(channel, rpc).Wait().status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_TRUE(Eventually([&] { return Handled(*world, rpc, grpc::RESOURCE_EXHAUSTED) == 3; }));
  }
  gate.Open();
  EXPECT_TRUE(inside.Wait().status.ok());
}

// One runs, one waits, the third is refused, and nothing is made of it.
TEST(AFullQueue, RefusesWithAHint) {  // L1
  Endless endless([](config::v1::ServerConfig& config) {
    OneAtATime(config);
    config.mutable_scheduling()->set_max_queued(1);
  });
  int passes = 0;
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    Call first(endless.world().channel(), rpc);
    ASSERT_TRUE(endless.Computes(++passes));
    Call second(endless.world().channel(), rpc);
    ASSERT_TRUE(Eventually([&] { return MetricSum(endless.world(), "heed_num_requests_waiting") == 1; }));
    const Outcome third = rpc.Ask(endless.world(), kFine);
    ExpectTold(third.status, {.code = grpc::RESOURCE_EXHAUSTED,
                              .reason = "QUEUE_FULL",
                              .message = Cat("the queue of '", rpc.model, "' is full")});
    EXPECT_TRUE(third.trailers.contains("grpc-retry-pushback-ms"));
    second.Cancel();
    second.Wait();  // the client's end of it: the server hears of it later
    ASSERT_TRUE(Eventually([&] { return MetricSum(endless.world(), "heed_num_requests_waiting") == 0; }));
    first.Cancel();
    first.Wait();
    endless.ExpectIdle();
    EXPECT_EQ(endless.passes(), passes);
  }
}

// The first input is refused for itself and the second by the queue, which another call fills meanwhile: the
// call is told what waiting helps.
TEST(AFullQueue, IsWhatACallIsToldWhoseInputsFailInSeveralWays) {
  Gate text, pass;
  auto world = World::Ready({{"reader",
                              [&] {
                                auto model = NewFakeClassifier();
                                model->on_layer = [&](int) { pass.Pass(); };
                                LoadedModel loaded = WithBytes(std::move(model));
                                loaded.tokenizer =
                                    std::make_unique<WatchedTokenizer>([&](std::string_view said) {
                                      if (said != "bad") return absl::OkStatus();
                                      text.Pass();
                                      return absl::InvalidArgumentError("a bad word");
                                    });
                                return loaded;
                              }}},
                            [](config::v1::ServerConfig& config) {
                              OneAtATime(config);
                              config.mutable_scheduling()->set_max_queued(1);
                            });
  const Rpc& classify = EveryRpc().front();
  Call running(world->channel(), classify);
  ASSERT_TRUE(Eventually([&] { return pass.reached() == 1; }));
  Call failing(world->channel(), classify, {.inputs = {Text("bad"), Text("fine")}});
  ASSERT_TRUE(Eventually([&] { return text.reached() == 1; }));
  Call waiting(world->channel(), classify);
  ASSERT_TRUE(Eventually([&] { return MetricSum(*world, "heed_num_requests_waiting") == 1; }));
  text.Open();
  const Outcome outcome = failing.Wait();
  ExpectTold(outcome.status, {.code = grpc::RESOURCE_EXHAUSTED, .reason = "QUEUE_FULL"});
  EXPECT_GT(std::stoi(outcome.trailers.at("grpc-retry-pushback-ms")), 0);
  EXPECT_TRUE(DetailsOf(outcome.status).retry.has_retry_delay());
  pass.Open();
  EXPECT_TRUE(running.Wait().status.ok());
  EXPECT_TRUE(waiting.Wait().status.ok());
}

// A fake sequence holds 8 bytes a token.
TEST(AnInput, WhoseStateCanNeverFitIsRefusedAndOneThatWillFitWaits) {  // L2
  auto world = World::Ready(EveryModel(), [](config::v1::ServerConfig& config) {
    config.mutable_scheduling()->set_state_bytes(8 * 40);
  });
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const Outcome alone = rpc.Ask(*world, {.inputs = {Text(std::string(50, 'x'))}});
    EXPECT_EQ(alone.status.error_code(), grpc::INVALID_ARGUMENT);
    const Outcome outcome = rpc.Ask(
        *world,
        {.inputs = {Text(std::string(30, 'x')), Text(std::string(50, 'x')), Text(std::string(31, 'x'))}});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    EXPECT_TRUE(outcome.Answered(0) && outcome.Answered(2));  // one after the other
    ASSERT_TRUE(outcome.inputs.contains(1) && outcome.inputs.at(1));
    EXPECT_EQ(outcome.inputs.at(1)->reason(), "STATE_TOO_LARGE");
  }
}

}  // namespace
}  // namespace heed
