// Generate over a socket: the stream as it is made, slow and vanished clients, a full queue.
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/api/generate_events.h"
#include "server/error.h"
#include "tests/server/service/relay.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using testing::HasSubstr;

// The writer, and the bytes of state that its sequences hold, which outlives it.
struct Watched {
  FakeModel* model = nullptr;  // the served one
  World::Models models(int64_t max_tokens = 64) {
    return {{"writer", [this, max_tokens] {
               auto made = NewFakeWriter(max_tokens);
               model = made.get();
               return WithBytes(std::move(made));
             }}};
  }
};

std::vector<v1::GenerateEvent> ReadAll(grpc::ClientReader<v1::GenerateEvent>& stream) {
  std::vector<v1::GenerateEvent> events;
  for (v1::GenerateEvent event; stream.Read(&event);) events.push_back(event);
  return events;
}

// The text of each (input, sample).
std::map<std::pair<int, int>, std::string> Texts(const std::vector<v1::GenerateEvent>& events) {
  std::map<std::pair<int, int>, std::string> texts;
  for (const auto& event : events) texts[{event.input(), event.sample()}] += event.piece().text();
  return texts;
}

TEST(Generate, StreamsWhatTheModelWrites) {
  Watched watched;
  auto world = World::Ready(watched.models());
  auto context = NewContext();
  v1::GenerateRequest request = GreedyRequest("writer", "abc", 10);
  request.mutable_sampling()->set_seed(7);
  auto stream = world->inference()->Generate(context.get(), request);
  const auto events = ReadAll(*stream);
  ASSERT_TRUE(stream->Finish().ok());
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events.front().started().model(), "writer");
  EXPECT_EQ(events.front().started().input_tokens(), 3);
  EXPECT_EQ(events.front().started().seed(), 7u);
  EXPECT_EQ(Texts(events).at({0, 0}), "defghijklm");
  EXPECT_EQ(events.back().finished().reason(), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(events.back().finished().usage().output_tokens(), 10);
}

TEST(Generate, StopsAtAStopString) {
  Watched watched;
  auto world = World::Ready(watched.models());
  auto context = NewContext();
  v1::GenerateRequest request = GreedyRequest("writer", "abc", 30);
  request.mutable_stopping()->add_stop("hi");
  auto stream = world->inference()->Generate(context.get(), request);
  const auto events = ReadAll(*stream);
  ASSERT_TRUE(stream->Finish().ok());
  EXPECT_EQ(Texts(events).at({0, 0}), "defg");
  EXPECT_EQ(events.back().finished().reason(), v1::FINISH_REASON_STOP_STRING);
  EXPECT_EQ(events.back().finished().stop_string(), "hi");
}

TEST(Generate, TellsTokensAndTheirLogprobabilitiesWhenAsked) {
  Watched watched;
  auto world = World::Ready(watched.models());
  auto context = NewContext();
  v1::GenerateRequest request = GreedyRequest("writer", "abc", 3);
  request.mutable_details()->set_tokens(true);
  request.mutable_details()->set_logprobs(true);
  request.mutable_details()->set_top_logprobs(2);
  auto stream = world->inference()->Generate(context.get(), request);
  std::vector<int32_t> tokens;
  int logprobs = 0;
  for (const auto& event : ReadAll(*stream)) {
    tokens.insert(tokens.end(), event.piece().tokens().begin(), event.piece().tokens().end());
    for (const auto& logprob : event.piece().logprobs()) {
      ++logprobs;
      EXPECT_LE(logprob.logprob(), 0);
      EXPECT_EQ(logprob.top_size(), 2);
      EXPECT_EQ(logprob.top(0).id(), logprob.id());
    }
  }
  ASSERT_TRUE(stream->Finish().ok());
  EXPECT_EQ(tokens, (std::vector<int32_t>{'d', 'e', 'f'}));
  EXPECT_EQ(logprobs, 3);
}

TEST(Generate, AnswersSeveralInputsAndSamplesInOneStream) {
  Watched watched;
  auto world = World::Ready(watched.models());
  auto context = NewContext();
  v1::GenerateRequest request = GreedyRequest("writer", "abc", 4);
  request.add_inputs()->set_text("abcdef");
  request.mutable_sampling()->set_samples(2);
  auto stream = world->inference()->Generate(context.get(), request);
  const auto texts = Texts(ReadAll(*stream));
  ASSERT_TRUE(stream->Finish().ok());
  ASSERT_EQ(texts.size(), 4u);
  for (int sample : {0, 1}) {
    EXPECT_EQ(texts.at({0, sample}), "defg");
    EXPECT_EQ(texts.at({1, sample}), "ghij");
  }
}

TEST(Generate, BeamsAreToldAtTheEndTheBestFirst) {
  Watched watched;
  auto world = World::Ready(watched.models());
  auto context = NewContext();
  v1::GenerateRequest request = GreedyRequest("writer", "abc", 4);
  request.clear_sampling();
  request.mutable_beam()->set_width(3);
  request.mutable_beam()->set_results(2);
  request.mutable_details()->set_logprobs(true);
  auto stream = world->inference()->Generate(context.get(), request);
  const auto events = ReadAll(*stream);
  ASSERT_TRUE(stream->Finish().ok());
  EXPECT_EQ(Texts(events).at({0, 0}), "defg");
  EXPECT_NE(Texts(events).at({0, 1}), "defg");
  ASSERT_EQ(events.size(), 6u);
  EXPECT_TRUE(events[0].has_started() && events[1].has_started());
  double logprob = 0;
  for (const auto& token : events[2].piece().logprobs()) logprob += token.logprob();
  EXPECT_NEAR(events[3].finished().score(), logprob, 1e-5);
  EXPECT_EQ(events[3].finished().usage().output_tokens(), 4);
  EXPECT_LE(events[5].finished().score(), events[3].finished().score());
}

TEST(Generate, OneBadInputDoesNotSinkTheOthers) {
  Watched watched;
  auto world = World::Ready(watched.models());
  auto context = NewContext();
  v1::GenerateRequest request = GreedyRequest("writer", "", 4);
  request.add_inputs()->set_text("abc");
  auto stream = world->inference()->Generate(context.get(), request);
  const auto events = ReadAll(*stream);
  ASSERT_TRUE(stream->Finish().ok());
  EXPECT_EQ(Texts(events).at({1, 0}), "defg");
  int errors = 0;
  for (const auto& event : events) {
    if (!event.has_error()) continue;
    ++errors;
    EXPECT_EQ(event.input(), 0);
    EXPECT_EQ(event.error().code(), grpc::INVALID_ARGUMENT);
    EXPECT_EQ(event.error().field(), "inputs[0].text");
  }
  EXPECT_EQ(errors, 1);
}

// The model holds its second token back until the client has read the first: if that waited for anything,
// nobody would go on.
TEST(Generate, ATokenIsReadBeforeTheNextIsMade) {
  std::promise<void> read;
  std::shared_future<void> was_read(read.get_future());
  auto world =
      World::Ready({{"writer", [&] {
                       auto model = NewFakeWriter();
                       model->head = [was_read, head = model->head](const std::vector<int32_t>& history) {
                         if (history.size() == 4) was_read.wait_for(std::chrono::seconds(30));
                         return head(history);
                       };
                       return WithBytes(std::move(model));
                     }}});
  auto context = NewContext();
  auto stream = world->inference()->Generate(context.get(), GreedyRequest("writer", "abc", 3));
  v1::GenerateEvent event;
  ASSERT_TRUE(stream->Read(&event) && event.has_started());
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.piece().text(), "d");
  read.set_value();
  EXPECT_EQ(Texts(ReadAll(*stream)).at({0, 0}), "ef");
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(Generate, ACancelledCallFreesItsState) {
  Watched watched;
  auto world = World::Ready(watched.models(60'000));
  auto context = NewContext();
  auto stream = world->inference()->Generate(context.get(), EndlessRequest());
  v1::GenerateEvent event;
  ASSERT_TRUE(stream->Read(&event) && event.has_started());
  ASSERT_TRUE(stream->Read(&event) && event.has_piece());
  context->TryCancel();
  ReadAll(*stream);
  EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return watched.model->held == 0; }));
}

TEST(Generate, AConnectionThatIsCutFreesItsState) {
  Watched watched;
  auto world = World::Ready(watched.models(60'000));
  Relay relay(world->server().port());
  auto stub = v1::Inference::NewStub(NewChannel(relay.port()));
  auto context = NewContext();
  auto stream = stub->Generate(context.get(), EndlessRequest());
  v1::GenerateEvent event;
  ASSERT_TRUE(stream->Read(&event) && event.has_started());
  ASSERT_TRUE(stream->Read(&event) && event.has_piece());
  relay.Cut();
  EXPECT_TRUE(Eventually([&] { return watched.model->held == 0; }));
  ReadAll(*stream);
  EXPECT_EQ(stream->Finish().error_code(), grpc::UNAVAILABLE);
}

TEST(Generate, AClientThatDoesNotReadIsPausedAndThenCancelled) {
  Watched watched;
  auto world = World::Ready(watched.models(60'000), [](config::v1::ServerConfig& config) {
    config.mutable_limits()->set_stall_seconds(0.1);
  });
  auto context = NewContext();
  auto stream = world->inference()->Generate(context.get(), EndlessRequest());
  stream->WaitForInitialMetadata();
  EXPECT_TRUE(Eventually([&] { return watched.model->held > 0; }));
  EXPECT_TRUE(Eventually([&] { return watched.model->held == 0; }));
  ReadAll(*stream);
  EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
}

TEST(Generate, ADeadlineEndsTheTextAndFreesItsState) {
  Watched watched;
  auto world = World::Ready(watched.models(60'000));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  auto stream = world->inference()->Generate(&context, EndlessRequest());
  v1::GenerateEvent event;
  EXPECT_TRUE(stream->Read(&event));  // and no more: so it cannot finish
  EXPECT_TRUE(Eventually([&] { return watched.model->held == 0; }));
  ReadAll(*stream);
  EXPECT_EQ(stream->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
}

TEST(Generate, TheServersOwnDeadlineHoldsForCallsWithoutOne) {
  Watched watched;
  auto world = World::Ready(watched.models(60'000), [](config::v1::ServerConfig& config) {
    config.mutable_limits()->set_deadline_seconds(1);
  });
  grpc::ClientContext context;
  auto stream = world->inference()->Generate(&context, EndlessRequest());
  v1::GenerateEvent event;
  EXPECT_TRUE(stream->Read(&event));  // and no more: so it cannot finish
  EXPECT_TRUE(Eventually([&] { return watched.model->held > 0; }));
  EXPECT_TRUE(Eventually([&] { return watched.model->held == 0; }));
  ReadAll(*stream);
  EXPECT_EQ(stream->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
}

// One runs, one waits, the third is refused.
TEST(Generate, AFullQueueRefusesWithAHint) {
  std::promise<void> go;
  std::shared_future<void> gone(go.get_future());
  auto world =
      World::Ready({{"writer",
                     [&] {
                       auto model = NewFakeWriter();
                       model->head = [gone, head = model->head](const std::vector<int32_t>& history) {
                         gone.wait_for(std::chrono::seconds(30));
                         return head(history);
                       };
                       return WithBytes(std::move(model));
                     }}},
                   [](config::v1::ServerConfig& config) {
                     WithMetrics(config);
                     config.mutable_scheduling()->set_max_queued(1);
                     config.mutable_scheduling()->set_max_running(1);
                   });
  const auto request = GreedyRequest("writer", "abc", 2);
  auto first_context = NewContext(), second_context = NewContext(), third_context = NewContext();
  auto stub = world->inference();
  auto first = stub->Generate(first_context.get(), request);
  ASSERT_TRUE(Eventually([&] { return MetricSum(*world, "heed_num_requests_running") == 1; }));
  auto second = stub->Generate(second_context.get(), request);
  ASSERT_TRUE(Eventually([&] { return MetricSum(*world, "heed_num_requests_waiting") == 1; }));
  auto third = stub->Generate(third_context.get(), request);
  ReadAll(*third);
  const grpc::Status refused = third->Finish();
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("the queue of 'writer' is full"));
  EXPECT_EQ(third_context->GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);
  go.set_value();
  ReadAll(*first);
  ReadAll(*second);
  EXPECT_TRUE(first->Finish().ok());
  EXPECT_TRUE(second->Finish().ok());
}

TEST(Generate, TellsWhichTokenEndedTheText) {
  Watched watched;
  auto world = World::Ready(watched.models());
  auto context = NewContext();
  v1::GenerateRequest request = GreedyRequest("writer", "abc", 30);
  request.mutable_stopping()->add_stop_tokens('g');
  auto stream = world->inference()->Generate(context.get(), request);
  const auto events = ReadAll(*stream);
  ASSERT_TRUE(stream->Finish().ok());
  EXPECT_EQ(Texts(events).at({0, 0}), "def");
  EXPECT_EQ(events.back().finished().reason(), v1::FINISH_REASON_END_TOKEN);
  EXPECT_EQ(events.back().finished().stop_token(), 'g');
  EXPECT_FALSE(events.back().finished().has_score());
}

TEST(GenerateEvents, ErrorsWaitUntilSomethingHasStarted) {
  GenerateEvents events(2);
  events.Add({.input = 0, .what = Error(ErrorReason::kInputEmpty, "empty")});
  EXPECT_FALSE(events.Next().has_value());
  EXPECT_FALSE(events.end().has_value());
  events.Add({.input = 1, .what = Started{}});
  EXPECT_EQ(events.Next()->input, 0);
  EXPECT_EQ(events.Next()->input, 1);
  EXPECT_FALSE(events.Next().has_value());
  events.Add({.input = 1, .what = Finished{}});
  EXPECT_FALSE(events.end().has_value());
  EXPECT_TRUE(events.Next().has_value());
  EXPECT_EQ(events.end(), absl::OkStatus());
}

TEST(GenerateEvents, WhereAllFailTheCallHasTheErrorToActOn) {
  GenerateEvents events(3);
  events.Add({.input = 0, .what = Error(ErrorReason::kInputEmpty, "empty")});
  events.Add({.input = 1, .what = RetryAfter(Error(ErrorReason::kQueueFull, "full"), seconds(1))});
  events.Add({.input = 2, .what = Error(ErrorReason::kInputTooLong, "long")});
  EXPECT_FALSE(events.Next().has_value());
  ASSERT_TRUE(events.end().has_value());
  EXPECT_EQ(ReasonOf(*events.end()), ErrorReason::kQueueFull);
}

}  // namespace
}  // namespace heed
