// What goes beside an error's message: its reason, its field, when to try again; on every RPC.
#include <sys/wait.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/util/time_util.h"
#include "gtest/gtest.h"
#include "server/api/answers.h"
#include "server/error.h"
#include "server/transport/utf8.h"
#include "server/transport/wire.h"
#include "tests/server/service/cases.h"

namespace heed {
namespace {

TEST(Errors, CarryTheirFieldAndHint) {
  const absl::Status status =
      RetryAfter(AtField(Error(ErrorReason::kQueueFull, "full"), "inputs[2]"), std::chrono::milliseconds(5));
  EXPECT_EQ(ToError(status).message(), "full");
  const grpc::Status sent = ToGrpc(status, "id");
  EXPECT_EQ(sent.error_message(), "inputs[2]: full");
  const Details told = DetailsOf(sent);
  EXPECT_EQ(told.count, 4);
  EXPECT_EQ(told.info.reason(), "QUEUE_FULL");
  EXPECT_EQ(told.info.domain(), "heed");
  ASSERT_EQ(told.bad_request.field_violations_size(), 1);
  EXPECT_EQ(told.bad_request.field_violations(0).field(), "inputs[2]");
  EXPECT_EQ(told.bad_request.field_violations(0).description(), "full");
  EXPECT_EQ(told.retry.retry_delay().nanos(), 5'000'000);
  EXPECT_EQ(told.request.request_id(), "id");
}

TEST(Errors, CarryTheirModelAndTheirNumbers) {
  auto world = World::Ready(EveryModel(), [](config::v1::ServerConfig& config) {
    config.mutable_limits()->set_inputs(3);
    config.mutable_limits()->set_generate_inputs(3);
  });
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const auto facts = [&](const Asked& asked) {
      const Details details = DetailsOf(rpc.Ask(*world, asked).status);
      const auto& metadata = details.info.metadata();
      return std::map<std::string, std::string>(metadata.begin(), metadata.end());
    };
    using Facts = std::map<std::string, std::string>;
    EXPECT_EQ(facts({.inputs = {Text(std::string(100, 'x'))}}),
              (Facts{{"model", rpc.model}, {"value", "100"}, {"limit", "64"}}));
    EXPECT_EQ(facts({.inputs = std::vector(4, Text("fine"))}), (Facts{{"value", "4"}, {"limit", "3"}}));
    EXPECT_EQ(facts({.inputs = {Text("")}}), (Facts{{"model", rpc.model}}));
  }
}

TEST(Errors, HaveNoDetailThatNobodyKnows) {
  const Details told = DetailsOf(ToGrpc(Error(ErrorReason::kModelError, "broken"), "id"));
  EXPECT_EQ(told.count, 2);
  EXPECT_EQ(told.info.reason(), "MODEL_ERROR");
  EXPECT_TRUE(told.info.metadata().empty());
  EXPECT_TRUE(ToGrpc(absl::OkStatus(), "id").error_details().empty());
}

// 8 KiB of headers is what clients take.
TEST(Errors, AreCutToWhatHeadersHold) {
  std::string long_text;
  while (long_text.size() < 100'000) long_text += "\u00e9";
  const grpc::Status sent = ToGrpc(AtField(Invalid(long_text), "x" + long_text), "id");
  EXPECT_LE(sent.error_message().size() * 3 + sent.error_details().size() * 4 / 3, 8192u);
  EXPECT_TRUE(ValidUtf8(sent.error_message()));
  const Details told = DetailsOf(sent);
}

TEST(Errors, OfCallsReachTheirClients) {
  auto world = World::Ready(OneClassifier());
  auto context = NewContext();
  v1::ClassifyRequest request;
  request.mutable_target()->set_model("nobody");
  v1::ClassifyResponse response;
  const Details unary = DetailsOf(world->inference()->Classify(context.get(), request, &response));
  EXPECT_EQ(unary.info.reason(), "MODEL_NOT_FOUND");
  EXPECT_EQ(unary.bad_request.field_violations(0).field(), "target.model");
  auto stream_context = NewContext();
  auto stream = world->inference()->Generate(stream_context.get(), GreedyRequest("nobody", "abc", 3));
  v1::GenerateEvent event;
  EXPECT_FALSE(stream->Read(&event));
  const Details streamed = DetailsOf(stream->Finish());
  EXPECT_EQ(streamed.info.reason(), "MODEL_NOT_FOUND");
}

TEST(Errors, TellWhenToTryAgain) {
  World world(OneClassifier());  // not loaded
  auto context = NewContext();
  v1::ClassifyRequest request;
  v1::ClassifyResponse response;
  const Details told = DetailsOf(world.inference()->Classify(context.get(), request, &response));
  EXPECT_EQ(told.info.reason(), "MODEL_LOADING");
  EXPECT_EQ(told.retry.retry_delay().seconds(), 1);
  const auto pushback = context->GetServerTrailingMetadata().find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, context->GetServerTrailingMetadata().end());
  EXPECT_EQ(pushback->second, "1000");
}

TEST(Errors, AreReadByPythonToo) {
  auto world = World::Ready(OneClassifier());
  const std::string command = Cat("python3 ", HEED_SOURCE_DIR, "/tests/server/service/error_details.py ",
                                  HEED_SOURCE_DIR, "/proto ", world->address());
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command;
}

const Asked kFine{.inputs = {Text("fine")}};

TEST(ARefusal, SaysTheSameInItsDetailsAndInItsTrailer) {
  World world(EveryModel());  // nothing is loaded
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const Outcome outcome = rpc.Ask(world, kFine);
    const Details details = DetailsOf(outcome.status);
    EXPECT_EQ(details.info.reason(), "MODEL_LOADING");
    EXPECT_EQ(details.info.metadata().at("model"), rpc.model);
    const int64_t milliseconds =
        google::protobuf::util::TimeUtil::DurationToMilliseconds(details.retry.retry_delay());
    EXPECT_GT(milliseconds, 0);
    EXPECT_EQ(outcome.trailers.at("grpc-retry-pushback-ms"), std::to_string(milliseconds));
  }
}

TEST(ATextThatIsNotUtf8, IsNamed) {
  auto world = World::Ready(EveryModel());
  for (const Rpc& rpc : EveryRpc()) {
    for (const char* bytes : {"\xff\xfe", "\xed\xa0\x80" /* half a surrogate */, "abc\xc3"}) {
      SCOPED_TRACE(rpc.name);
      ExpectTold(rpc.Ask(*world, {.inputs = {Text("fine"), Text(bytes)}}).status,
                 {.reason = "MALFORMED_REQUEST",
                  .field = Cat("inputs[1]", rpc.place, ".text"),
                  .message = "it is not UTF-8"});
    }
  }
}

}  // namespace
}  // namespace heed
