// What goes beside a message: the request's id and the details of an error, on every RPC, through the
// ordinary client.
#include <memory>
#include <string>

#include "google/protobuf/util/time_util.h"
#include "gtest/gtest.h"
#include "tests/server/service/cases.h"

namespace heed {
namespace {

const Asked kFine{.inputs = {Text("fine")}};
const Asked kEmpty{.inputs = {Text("")}};

Outcome AskAs(World& world, const Rpc& rpc, const Asked& asked, const std::string& id) {
  auto context = NewContext();
  if (!id.empty()) context->AddMetadata("x-request-id", id);
  return rpc.ask(*world.inference(), *context, asked);
}

std::string IdIn(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find("x-request-id");
  return found == metadata.end() ? "" : found->second;
}

TEST(ARequestsId, ComesBackFromEveryRpc) {
  auto world = World::Ready(EveryModel());
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const std::string id = "test.1:" + rpc.name;
    const Outcome good = AskAs(*world, rpc, kFine, id);
    ASSERT_TRUE(good.status.ok()) << good.status.error_message();
    EXPECT_EQ(IdIn(good.headers), id);
    const Outcome bad = AskAs(*world, rpc, kEmpty, id);
    EXPECT_EQ(IdIn(bad.headers) + IdIn(bad.trailers), id);  // without an answer there are trailers only
    EXPECT_EQ(DetailsOf(bad.status).request.request_id(), id);
  }
}

TEST(ARequestsId, IsMadeWhereThereIsNone) {
  auto world = World::Ready(EveryModel());
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const std::string first = IdIn(AskAs(*world, rpc, kFine, "").headers);
    EXPECT_FALSE(first.empty());
    EXPECT_NE(IdIn(AskAs(*world, rpc, kFine, "").headers), first);
  }
}

TEST(ARefusal, SaysTheSameInItsDetailsAndInItsTrailer) {
  World world(EveryModel());  // nothing is loaded
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const Outcome outcome = rpc.Ask(world, kFine);
    const Details details = DetailsOf(outcome.status);
    EXPECT_EQ(details.info.reason(), "MODEL_LOADING");
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
