// What a command says of a call that fails: the reason, what the caller can do, the id.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"

namespace heed::cli {
namespace {

using testing::EndsWith;

TEST(Commands, AFailedCallOfAServerWithoutReasonsHasItsCodeMessageAndAdvice) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) { return grpc::Status(grpc::NOT_FOUND, "no model 'x'"); };
  const Outcome run = RunAt(server, {"classify", "--model=x", "text"});
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_EQ(run.err, "heed: NOT_FOUND: no model 'x'\n`heed models` lists what the server has\n");
  EXPECT_EQ(run.out, "");
}

// What `heed classify --model=polarity` says of a call that fails so.
std::string SaidOf(grpc::StatusCode code, const SaidDetails& said, const std::string& message = "why") {
  FakeServer server;
  server.classify = [&](auto&, auto&, auto&) { return Refusal(code, message, said); };
  // One attempt: the time is over before the server's delay.
  return RunAt(server, {"classify", "--model=polarity", "--timeout=20s", "text"}).err;
}

TEST(Advice, FitsTheReason) {
  const struct {
    grpc::StatusCode code;
    const char *reason, *advice;
  } kCases[] = {
      {grpc::FAILED_PRECONDITION, "MODEL_FAILED", "`heed models` shows why; the others answer"},
      {grpc::INVALID_ARGUMENT, "RPC_UNSUPPORTED", "`heed describe polarity` says what it answers"},
      {grpc::INVALID_ARGUMENT, "INPUT_KIND_UNSUPPORTED", "`heed describe polarity` says what it reads"},
      {grpc::INVALID_ARGUMENT, "TEXT_TOO_LARGE", "`heed info` shows the server's limits"},
      {grpc::UNAVAILABLE, "MODEL_LOADING",
       "it is being loaded: try again later; `heed health --model=polarity` says when it is ready"},
      {grpc::RESOURCE_EXHAUSTED, "QUEUE_FULL", "the model has more to do than it can hold: try again later"},
  };
  for (const auto& [code, reason, advice] : kCases)
    EXPECT_EQ(SaidOf(code, {.reason = reason}), Cat("heed: ", reason, ": why\n", advice, "\n"));
}

TEST(Advice, SaysWhenToTryAgainAndUnderWhichIdTheLogHasIt) {
  FakeServer server;
  server.classify = [](grpc::ServerContext& context, auto&, auto&) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms", "-1");
    return Refusal(grpc::RESOURCE_EXHAUSTED, "the queue is full",
                   {.reason = "QUEUE_FULL", .request_id = "r-7", .retry_milliseconds = 250});
  };
  EXPECT_EQ(RunAt(server, {"classify", "text"}).err,
            "heed: QUEUE_FULL: the queue is full\n"
            "the model has more to do than it can hold: try again in 250ms\nrequest r-7\n");
}

TEST(Advice, NamesTheModelsWhereThereIsNoSuch) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) {
    return Refusal(grpc::NOT_FOUND, "no model 'polrity' is served", {.reason = "MODEL_NOT_FOUND"});
  };
  server.list_models = [](auto&, auto&, v1::ListModelsResponse& response) {
    for (const char* name : {"g2p", "polarity"}) response.add_models()->set_model(name);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"classify", "--model=polrity", "text"}).err,
            "heed: MODEL_NOT_FOUND: no model 'polrity' is served\n"
            "did you mean 'polarity'? the server has g2p, polarity\n");
  EXPECT_THAT(RunAt(server, {"classify", "--model=xyz", "text"}).err,
              EndsWith("served\nthe server has g2p, polarity\n"));
  server.list_models = nullptr;
  EXPECT_THAT(RunAt(server, {"classify", "--model=xyz", "text"}).err,
              EndsWith("`heed models` lists what the server has\n"));
}

TEST(Advice, NamesTheModelsWhereNoneIsNamed) {
  FakeServer server;
  const auto refuse = [](const char* field) {
    return Refusal(grpc::INVALID_ARGUMENT, "no model is named, and 2 are served",
                   {.reason = "INVALID_VALUE", .field = field});
  };
  server.classify = [&](auto&, auto&, auto&) { return refuse("target.model"); };
  server.describe_model = [&](auto&, auto&, auto&) { return refuse("model"); };
  server.list_models = [](auto&, auto&, v1::ListModelsResponse& response) {
    for (const char* name : {"g2p", "polarity"}) response.add_models()->set_model(name);
    return grpc::Status::OK;
  };
  for (const auto& words : {std::vector<std::string>{"classify", "text"}, {"describe"}}) {
    EXPECT_EQ(RunAt(server, words).err,
              "heed: INVALID_VALUE: no model is named, and 2 are served\nthe server has g2p, polarity\n");
  }
}

}  // namespace
}  // namespace heed::cli
