// Which call it was: x-request-id, in headers, errors and the log.
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/observation/log.h"
#include "tests/server/service/bytes_call.h"
#include "tests/server/service/cases.h"
#include "tests/server/service/watched_tokenizer.h"

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

TEST(RequestId, ComesBackFromEveryRpc) {
  auto world = World::Ready(EveryModel());
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const std::string id = "test.1:" + rpc.name;
    const Outcome good = AskAs(*world, rpc, kFine, id);
    ASSERT_TRUE(good.status.ok()) << good.status.error_message();
    EXPECT_EQ(IdIn(good.headers), id);
    EXPECT_EQ(IdIn(good.trailers), "");
    const Outcome bad = AskAs(*world, rpc, kEmpty, id);
    EXPECT_EQ(IdIn(bad.trailers), id);
    EXPECT_TRUE(bad.headers.empty());  // else no client would ever try again
    EXPECT_EQ(DetailsOf(bad.status).request.request_id(), id);
  }
}

TEST(RequestId, IsMadeForEveryRpc) {
  auto world = World::Ready(EveryModel());
  for (const Rpc& rpc : EveryRpc()) {
    SCOPED_TRACE(rpc.name);
    const std::string first = IdIn(AskAs(*world, rpc, kFine, "").headers);
    EXPECT_FALSE(first.empty());
    EXPECT_NE(IdIn(AskAs(*world, rpc, kFine, "").headers), first);
  }
}

TEST(RequestId, IsMadeWhereThereIsNone) {
  auto world = World::Ready(OneClassifier());
  std::string ids[2];
  for (std::string& id : ids) {
    auto context = NewContext();
    v1::ListModelsResponse list;
    ASSERT_TRUE(world->models()->ListModels(context.get(), {}, &list).ok());
    id = IdIn(Plain(context->GetServerInitialMetadata()));
    EXPECT_THAT(id, testing::MatchesRegex("[0-9a-f]{32}"));
  }
  EXPECT_NE(ids[0], ids[1]);
}

TEST(RequestId, OfAnotherFormIsRefused) {
  auto world = World::Ready(OneClassifier());
  for (const std::string& id : {std::string(), std::string("a b"), std::string(129, 'x')}) {
    auto context = NewContext();
    context->AddMetadata("x-request-id", id);
    v1::ListModelsResponse list;
    const grpc::Status status = world->models()->ListModels(context.get(), {}, &list);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << id;
    EXPECT_EQ(DetailsOf(status).bad_request.field_violations(0).field(), "x-request-id");
    EXPECT_EQ(DetailsOf(status).request.request_id(), IdIn(Plain(context->GetServerTrailingMetadata())));
    EXPECT_THAT(IdIn(Plain(context->GetServerTrailingMetadata())), testing::MatchesRegex("[0-9a-f]{32}"));
  }
  auto context = NewContext();
  context->AddMetadata("x-request-id", std::string(128, 'x'));
  v1::ListModelsResponse list;
  EXPECT_TRUE(world->models()->ListModels(context.get(), {}, &list).ok());
}

TEST(RequestId, IsInTheLogOfAFailedCall) {
  auto world = World::Ready({{"m", [] {
                                auto model = NewFakeClassifier();
                                model->on_layer = [](int) { throw std::runtime_error("broken"); };
                                return WithBytes(std::move(model));
                              }}});
  FlushLog();
  testing::internal::CaptureStderr();
  auto context = NewContext();
  context->AddMetadata("x-request-id", "find-me");
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("good");
  v1::ClassifyResponse response;
  EXPECT_EQ(world->inference()->Classify(context.get(), request, &response).error_code(), grpc::INTERNAL);
  world.reset();
  EXPECT_TRUE(FlushLog());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::ContainsRegex("\"event\":\"call failed\".*\"method\":\"Classify\",\"reason\":"
                                     "\"MODEL_ERROR\".*\"request_id\":\"find-me\""));
}

// The other input is answered, so the call itself does not fail.
TEST(RequestId, IsInTheLogOfWhatOneInputOfACallHasThrown) {
  const auto look = [](std::string_view text) -> absl::Status {
    if (text == "bad") throw std::runtime_error("broken");
    return absl::OkStatus();
  };
  auto world = World::Ready({{"reader", [&] {
                                LoadedModel loaded = WithBytes(NewFakeClassifier());
                                loaded.tokenizer = std::make_unique<WatchedTokenizer>(look);
                                return loaded;
                              }}});
  FlushLog();
  testing::internal::CaptureStderr();
  EXPECT_TRUE(
      AskAs(*world, EveryRpc().front(), {.inputs = {Text("bad"), Text("fine")}}, "find-me").status.ok());
  world.reset();
  EXPECT_TRUE(FlushLog());
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::HasSubstr("\"event\":\"task failed\",\"error\":\"broken\",\"request_id\":\"find-me\""));
}

}  // namespace
}  // namespace heed
