// Requests for models that cannot answer now, or answer wrongly: rows R13 and R15 of the failure catalogue
// (reference/serving.md 2.2), on every RPC.
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/cases.h"
#include "tests/server/service/watched_tokenizer.h"

namespace heed {
namespace {

using testing::HasSubstr;
using testing::Not;

const Asked kFine{.inputs = {Text("fine")}};

TEST(Loading, ModelsTellWhenToComeAgain) {  // R13
  Gate gate;
  World world(EveryModel([&](FakeModel&) { gate.Pass(); }));
  std::jthread loading([&] { EXPECT_TRUE(world.server().Load().ok()); });
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const Outcome outcome = rpc.Ask(world, kFine);
    ExpectTold(outcome.status, {.code = grpc::UNAVAILABLE,
                                .reason = "MODEL_LOADING",
                                .field = "target.model",
                                .message = Cat("model '", rpc.model, "' is loading")});
    EXPECT_TRUE(outcome.trailers.contains("grpc-retry-pushback-ms"));
  }
  v1::ListModelsResponse list;
  ASSERT_TRUE(world.models()->ListModels(NewContext().get(), {}, &list).ok());
  for (const auto& model : list.models()) EXPECT_EQ(model.state(), v1::MODEL_STATE_LOADING);
  gate.Open();
  loading.join();
  for (const Rpc& rpc : EveryRpc()) EXPECT_TRUE(rpc.Ask(world, kFine).status.ok()) << rpc.name;
}

TEST(Loading, ModelsThatFailedAreNotServedAndTheOthersAre) {  // R13
  World::Models models = EveryModel();
  for (const char* name : {"embedder", "filler", "writer"})
    models[name] = [] { return absl::InvalidArgumentError("broken"); };
  World world(models, [](config::v1::ServerConfig& config) { config.set_strict(false); });
  ASSERT_TRUE(world.server().Load().ok());
  int served = 0, failed = 0;
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const Outcome outcome = rpc.Ask(world, kFine);
    if (rpc.model == "reader") {
      ++served;
      EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
      continue;
    }
    ++failed;
    ExpectTold(outcome.status, {.code = grpc::FAILED_PRECONDITION,
                                .reason = "MODEL_FAILED",
                                .field = "target.model",
                                .message = Cat("model '", rpc.model, "' could not be loaded")});
    EXPECT_FALSE(outcome.trailers.contains("grpc-retry-pushback-ms"));
  }
  EXPECT_GT(served, 0);
  EXPECT_GT(failed, 0);
}

// Whether the text that begins a history is this one's.
bool BeginsWith(char letter, const std::vector<int32_t>& history, size_t context) {
  return history.size() > context && history[context] == letter;
}

// Where a text stands in what a model reads: behind Score's context, "fine".
size_t ContextOf(const Rpc& rpc) { return rpc.name == "Score" ? 4 : 0; }

// Of three inputs; what was thrown is for us to read.
void ExpectTheSecondFails(const Outcome& outcome, const std::string& reason) {
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_TRUE(outcome.Answered(0) && outcome.Answered(2));
  ASSERT_TRUE(outcome.inputs.contains(1) && outcome.inputs.at(1));
  ExpectTold(*outcome.inputs.at(1), {.code = grpc::INTERNAL, .reason = reason});
  EXPECT_THAT(outcome.inputs.at(1)->message(), Not(HasSubstr("secret")));
}

TEST(Models, WhoseOutputIsNotFiniteFailThatInputAlone) {  // R15
  for (const float wrong :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    size_t context = 0;
    auto world = World::Ready(EveryModel([&](FakeModel& model) {
      model.head = [&context, wrong, head = model.head](const std::vector<int32_t>& history) {
        std::vector<float> outputs = head(history);
        if (BeginsWith('n', history, context)) outputs.back() = wrong;
        return outputs;
      };
    }));
    for (const Rpc& rpc : EveryRpc()) {
      SCOPED_TRACE(Cat(rpc.name, " ", wrong));
      context = ContextOf(rpc);
      const Outcome outcome = rpc.Ask(*world, {.inputs = {Text("good"), Text("none"), Text("fine")}});
      ExpectTheSecondFails(outcome, "OUTPUT_NOT_FINITE");
    }
  }
}

TEST(Models, ThatHaveNothingToSayButTheEndTellWhatToChange) {
  auto world = World::Ready({{"writer", [] {
                                auto model = NewFakeWriter();
                                model->head = [](const auto&) {
                                  std::vector<float> logits(256, -std::numeric_limits<float>::infinity());
                                  logits['z'] = 0;
                                  return logits;
                                };
                                return WithBytes(std::move(model));
                              }}});
  v1::GenerateRequest request = GreedyRequest("writer", "abc", 5);
  request.mutable_stopping()->add_stop_tokens('z');
  EXPECT_TRUE(Ask(*world, request).status.ok());
  request.mutable_stopping()->set_min_tokens(3);
  ExpectTold(Ask(*world, request).status, {.code = grpc::FAILED_PRECONDITION,
                                           .reason = "NO_TOKEN_LEFT",
                                           .field = "stopping.min_tokens",
                                           .message = "min_tokens is 3"});
}

// What was thrown is for us to read: it is counted and logged, and the client is told nothing of it.
TEST(Models, ThatThrowFailThatBatchAlone) {
  testing::internal::CaptureStderr();
  size_t context = 0;
  auto world = World::Ready(EveryModel([&](FakeModel& model) {
                              model.head = [&context, head = model.head](const auto& history) {
                                if (BeginsWith('t', history, context))
                                  throw std::runtime_error("secret cause");
                                return head(history);
                              };
                            }),
                            OneAtATime);
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    context = ContextOf(rpc);
    const Outcome outcome = rpc.Ask(*world, {.inputs = {Text("good"), Text("throws"), Text("fine")}});
    ExpectTheSecondFails(outcome, "MODEL_ERROR");
    ExpectTold(rpc.Ask(*world, {.inputs = {Text("throws")}}).status,
               {.code = grpc::INTERNAL, .reason = "MODEL_ERROR"});
    EXPECT_TRUE(rpc.Ask(*world, kFine).status.ok());
  }
  EXPECT_EQ(MetricSum(*world, "heed_model_failures_total"), 2.0 * std::ssize(EveryRpc()));
  world.reset();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("secret cause"));
}

TEST(Models, ThatThrowInALayerFailTheWholeBatchAndGoOn) {
  std::atomic<bool> throws{true};
  auto world = World::Ready(EveryModel([&](FakeModel& model) {
    model.on_layer = [&](int layer) {
      if (throws && layer == 1) throw std::runtime_error("secret cause");
    };
  }));
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    throws = true;
    ExpectTold(rpc.Ask(*world, {.inputs = {Text("one"), Text("two")}}).status,
               {.code = grpc::INTERNAL, .reason = "MODEL_ERROR"});
    throws = false;
    EXPECT_TRUE(rpc.Ask(*world, kFine).status.ok());
  }
}

// One input at a time is read: the second and the third are made when others have ended.
TEST(Tokenizers, ThatThrowFailThatInputAlone) {
  World::Models models = EveryModel();
  for (auto& [name, make] : models) {
    make = [make] {
      auto loaded = make();
      loaded->tokenizer = std::make_unique<WatchedTokenizer>([](std::string_view text) -> absl::Status {
        if (text == "throws") throw std::runtime_error("secret cause");
        return absl::OkStatus();
      });
      return loaded;
    };
  }
  auto world = World::Ready(models, [](config::v1::ServerConfig& config) {
    WithMetrics(config);
    config.mutable_scheduling()->set_max_queued(2);
  });
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const Outcome outcome = rpc.Ask(*world, {.inputs = {Text("good"), Text("throws"), Text("fine")}});
    ExpectTheSecondFails(outcome, "MODEL_ERROR");
  }
  EXPECT_EQ(MetricSum(*world, "heed_task_failures_total"), std::ssize(EveryRpc()));
}

}  // namespace
}  // namespace heed
