// A line of the log for each call that has ended: who called what, how it ended, what it took.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/observation/log.h"
#include "tests/server/service/bytes_call.h"
#include "tests/server/service/cases.h"

namespace heed {
namespace {

using testing::MatchesRegex;

void WithAccess(config::v1::ServerConfig& config) { config.mutable_log()->set_access(true); }

// What a server prints while it is called, until its last call has ended.
std::string Printed(World::Models models, const std::function<void(config::v1::ServerConfig&)>& change,
                    const std::function<void(World& world)>& call) {
  auto world = World::Ready(std::move(models), change);
  FlushLog();
  testing::internal::CaptureStderr();
  call(*world);
  world.reset();
  EXPECT_TRUE(FlushLog());
  return testing::internal::GetCapturedStderr();
}

// The lines of calls, as they have ended: who ends soon after another may come before it.
std::vector<Json> Lines(const std::string& printed) {
  std::vector<Json> lines;
  for (size_t begin = 0, end; (end = printed.find('\n', begin)) != printed.npos; begin = end + 1) {
    auto line = ParseJson(printed.substr(begin, end - begin), "the log");
    EXPECT_TRUE(line.ok()) << line.status();
    if (line.ok() && line->value("event", "") == "call") lines.push_back(*std::move(line));
  }
  return lines;
}

std::vector<Json> LinesOf(const std::function<void(World& world)>& call,
                          const std::function<void(config::v1::ServerConfig&)>& change = WithAccess) {
  return Lines(Printed(EveryModel(), change, call));
}

std::string TextOf(const Json& line, const char* key) { return line.value(key, "none"); }
double NumberOf(const Json& line, const char* key) { return line.value(key, -1.0); }

// The line that says so; an empty one if there is none.
Json LineWith(const std::vector<Json>& lines, const char* key, const std::string& value) {
  for (const Json& line : lines) {
    if (TextOf(line, key) == value) return line;
  }
  ADD_FAILURE() << "no line with " << key << " " << value;
  return Json::object();
}

Outcome AskAs(World& world, const Rpc& rpc, const Asked& asked, const std::string& id) {
  auto context = NewContext();
  context->AddMetadata("x-request-id", id);
  return rpc.ask(*world.inference(), *context, asked);
}

TEST(AccessLog, TellsOfEachCallWhatItWasAndWhatItTook) {
  const auto lines = LinesOf([](World& world) {
    for (const Rpc& rpc : EveryRpc())
      EXPECT_TRUE(AskAs(world, rpc, {.inputs = {Text("fine"), Text("good")}}, "id:" + rpc.name).status.ok());
  });
  EXPECT_EQ(lines.size(), EveryRpc().size());
  for (const Rpc& rpc : EveryRpc()) {
    const Json line = LineWith(lines, "request_id", "id:" + rpc.name);
    SCOPED_TRACE(line.dump());
    EXPECT_EQ(TextOf(line, "severity"), "info");
    EXPECT_EQ(TextOf(line, "service"), "heed.v1.Inference");
    EXPECT_EQ(TextOf(line, "method"), rpc.name);
    EXPECT_THAT(TextOf(line, "peer"), MatchesRegex("127\\.0\\.0\\.1:[0-9]+"));
    EXPECT_EQ(TextOf(line, "model"), rpc.model);
    EXPECT_EQ(TextOf(line, "code"), "OK");
    EXPECT_FALSE(line.contains("reason"));
    EXPECT_GT(NumberOf(line, "seconds"), 0);
    EXPECT_GE(NumberOf(line, "queued_seconds"), 0);
    EXPECT_LE(NumberOf(line, "queued_seconds"), NumberOf(line, "seconds"));
    EXPECT_EQ(NumberOf(line, "tokens_read"), rpc.name == "Score" ? 16 : 8);  // with its contexts
    EXPECT_EQ(NumberOf(line, "tokens_made"), rpc.name == "Generate" ? 4 : 0);
  }
}

TEST(AccessLog, CountsTheBytesOfMessages) {
  v1::ClassifyRequest request = Good<v1::ClassifyRequest>();
  request.add_inputs()->set_text("fine");
  v1::ClassifyResponse response;
  const auto lines = LinesOf([&](World& world) {
    EXPECT_TRUE(world.inference()->Classify(NewContext().get(), request, &response).ok());
  });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(NumberOf(lines[0], "bytes_in"), static_cast<double>(request.ByteSizeLong()));
  EXPECT_EQ(NumberOf(lines[0], "bytes_out"), static_cast<double>(response.ByteSizeLong()));
}

TEST(AccessLog, CountsTheBytesAndTheTokensOfAStream) {
  const v1::GenerateRequest request = GreedyRequest("writer", "abc", 10);
  size_t bytes = 0;
  const auto lines = LinesOf([&](World& world) {
    auto context = NewContext();
    auto stream = world.inference()->Generate(context.get(), request);
    for (v1::GenerateEvent event; stream->Read(&event);) bytes += event.ByteSizeLong();
    EXPECT_TRUE(stream->Finish().ok());
  });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(NumberOf(lines[0], "bytes_in"), static_cast<double>(request.ByteSizeLong()));
  EXPECT_EQ(NumberOf(lines[0], "bytes_out"), static_cast<double>(bytes));
  EXPECT_EQ(NumberOf(lines[0], "tokens_read"), 3);
  EXPECT_EQ(NumberOf(lines[0], "tokens_made"), 10);
}

TEST(AccessLog, TellsWhyACallWasRefused) {
  const auto lines = LinesOf([](World& world) {
    const Rpc& classify = EveryRpc().front();
    AskAs(world, classify, {.inputs = {Text("")}}, "empty");
    v1::Target nobody;
    nobody.set_model("nobody");
    AskAs(world, classify, {.inputs = {Text("fine")}, .target = nobody}, "nobody");
    AskAs(world, classify, {.inputs = {Text("fine")}}, "not an id");
  });
  EXPECT_EQ(lines.size(), 3u);
  const Json empty = LineWith(lines, "request_id", "empty");
  EXPECT_EQ(TextOf(empty, "model"), "reader");
  EXPECT_EQ(TextOf(empty, "code"), "InvalidArgument");
  EXPECT_EQ(TextOf(empty, "reason"), "INPUT_EMPTY");
  EXPECT_FALSE(empty.contains("queued_seconds"));
  const Json nobody = LineWith(lines, "request_id", "nobody");
  EXPECT_FALSE(nobody.contains("model"));
  EXPECT_EQ(TextOf(nobody, "code"), "NotFound");
  EXPECT_EQ(TextOf(nobody, "reason"), "MODEL_NOT_FOUND");
  const Json no_id = LineWith(lines, "reason", "INVALID_VALUE");
  EXPECT_THAT(TextOf(no_id, "request_id"), MatchesRegex("[0-9a-f]{32}"));
}

TEST(AccessLog, HasThoseThatAreTurnedAwayAndThoseThatAreCancelled) {
  Gate gate;
  const auto models = EveryModel([&](FakeModel& model) { model.on_layer = [&](int) { gate.Pass(); }; });
  const auto one_request = [](config::v1::ServerConfig& config) {
    WithAccess(config);
    WithMetrics(config);
    config.mutable_limits()->set_requests(1);
  };
  const auto lines = Lines(Printed(models, one_request, [&](World& world) {
    auto context = NewContext();
    auto stream = world.inference()->Generate(context.get(), GreedyRequest("writer", "abc", 10));
    EXPECT_TRUE(Eventually([&] { return gate.reached() == 1; }));
    AskAs(world, EveryRpc().front(), {.inputs = {Text("fine")}}, "one-too-many");
    context->TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
    EXPECT_TRUE(Eventually([&] { return MetricSum(world, "heed_calls_in_flight") == 0; }));
    gate.Open();
  }));
  EXPECT_EQ(lines.size(), 2u);
  const Json refused = LineWith(lines, "request_id", "one-too-many");
  EXPECT_EQ(TextOf(refused, "code"), "ResourceExhausted");
  EXPECT_EQ(TextOf(refused, "reason"), "TOO_MANY_REQUESTS");
  const Json cancelled = LineWith(lines, "method", "Generate");
  EXPECT_EQ(TextOf(cancelled, "model"), "writer");
  EXPECT_EQ(TextOf(cancelled, "code"), "Canceled");
  EXPECT_EQ(TextOf(cancelled, "reason"), "CLIENT_CANCELLED");
}

TEST(AccessLog, HasCallsOfOtherServicesAndOfNone) {
  const auto lines = LinesOf([](World& world) {
    grpc::health::v1::HealthCheckResponse health;
    EXPECT_TRUE(world.health()->Check(NewContext().get(), {}, &health).ok());
    EXPECT_EQ(CallWith(world, "/nobody.Service/Method", nullptr).error_code(), grpc::UNIMPLEMENTED);
  });
  EXPECT_EQ(lines.size(), 2u);
  const Json health = LineWith(lines, "service", "grpc.health.v1.Health");
  EXPECT_EQ(TextOf(health, "method"), "Check");
  EXPECT_EQ(TextOf(health, "code"), "OK");
  EXPECT_FALSE(health.contains("model") || health.contains("tokens_read"));
  const Json unknown = LineWith(lines, "service", "unknown");
  EXPECT_EQ(TextOf(unknown, "method"), "unknown");
  EXPECT_EQ(TextOf(unknown, "code"), "Unimplemented");
  EXPECT_FALSE(unknown.contains("reason"));
  EXPECT_THAT(TextOf(unknown, "request_id"), MatchesRegex("[0-9a-f]{32}"));
}

TEST(AccessLog, HasNoCallsOfTheServerToItself) {
  const auto lines =
      LinesOf([](World& world) { EXPECT_TRUE(Eventually([&] { return world.server().beats() > 0; })); });
  EXPECT_TRUE(lines.empty());
}

// A text, an id that is none, the names of what nobody has, and metadata.
TEST(AccessLog, HasNothingThatAClientHasWritten) {
  const std::string printed = Printed(EveryModel(), WithAccess, [](World& world) {
    for (const Rpc& rpc : EveryRpc()) {
      auto context = NewContext();
      context->AddMetadata("authorization", "Bearer secret");
      EXPECT_TRUE(rpc.ask(*world.inference(), *context, {.inputs = {Text("secret")}}).status.ok());
      v1::Target target;
      target.set_model("secret");
      rpc.Ask(world, {.inputs = {Text("fine")}, .target = target});
      AskAs(world, rpc, {.inputs = {Text("fine")}}, "a secret");
    }
    grpc::health::v1::HealthCheckRequest request;
    request.set_service("secret");
    grpc::health::v1::HealthCheckResponse health;
    EXPECT_FALSE(world.health()->Check(NewContext().get(), request, &health).ok());
    EXPECT_FALSE(CallWith(world, "/secret.Service/Secret", nullptr).ok());
  });
  EXPECT_EQ(Lines(printed).size(), 3 * EveryRpc().size() + 2);
  EXPECT_THAT(printed, testing::Not(testing::HasSubstr("ecret")));
}

TEST(AccessLog, IsThereOnlyWhereItIsAskedFor) {
  const auto lines = LinesOf(ExpectServes, [](config::v1::ServerConfig&) {});
  EXPECT_TRUE(lines.empty());
}

}  // namespace
}  // namespace heed
