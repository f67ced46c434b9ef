// Every family of metrics that is exported is seen to move, when and as it should.
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/observation/log.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using testing::HasSubstr;

grpc::Status Classify(World& world, const std::string& text, const std::string& model = "reader") {
  v1::ClassifyRequest request;
  request.mutable_target()->set_model(model);
  request.add_inputs()->set_text(text);
  v1::ClassifyResponse response;
  return world.inference()->Classify(NewContext().get(), request, &response);
}

// Its passes throw.
std::unique_ptr<FakeModel> NewBrokenClassifier() {
  auto model = NewFakeClassifier();
  model->on_layer = [](int) { throw std::runtime_error("a weight is lost"); };
  return model;
}

// A classifier, a writer of long texts and a model whose passes throw; one input is worked on, one waits.
std::unique_ptr<World> NarrowWorld(const std::function<void(config::v1::ServerConfig&)>& change = [](auto&) {
}) {
  return World::Ready({{"broken", [] { return WithBytes(NewBrokenClassifier()); }},
                       {"reader", [] { return WithBytes(NewFakeClassifier()); }},
                       {"writer", [] { return WithBytes(NewFakeWriter(60'000)); }}},
                      [&](config::v1::ServerConfig& config) {
                        OneAtATime(config);
                        config.mutable_scheduling()->set_max_queued(1);
                        change(config);
                      });
}

void Generate(World& world) {
  auto context = NewContext();
  auto stream = world.inference()->Generate(context.get(), GreedyRequest("writer", "abc", 8));
  for (v1::GenerateEvent event; stream->Read(&event);) {
  }
  EXPECT_TRUE(stream->Finish().ok());
}

// Calls `look` while an endless stream is open and its reader pauses; then the stream misses its deadline or
// is cancelled.
void WhileOneRuns(World& world, bool until_deadline, const std::function<void()>& look) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(until_deadline ? 1 : 20));
  auto stream = world.inference()->Generate(&context, EndlessRequest());
  v1::GenerateEvent event;
  EXPECT_TRUE(stream->Read(&event));
  look();
  if (until_deadline) {  // nothing is read meanwhile, so the text cannot end before
    EXPECT_TRUE(Eventually([&] { return std::chrono::system_clock::now() > context.deadline(); }));
  } else {
    context.TryCancel();
  }
  while (stream->Read(&event)) {
  }
  EXPECT_FALSE(stream->Finish().ok());
}

TEST(Metrics, EveryFamilyMoves) {
  auto world = NarrowWorld();
  auto grows = [&](const std::string& family, const std::function<void()>& mover) {
    const double was = MetricSum(*world, family);
    mover();
    EXPECT_TRUE(Eventually([&] { return MetricSum(*world, family) > was; })) << family;
  };
  auto classify = [&] { EXPECT_TRUE(Classify(*world, "fine").ok()); };
  auto refuse = [&] { EXPECT_FALSE(Classify(*world, "").ok()); };
  auto generate = [&] { Generate(*world); };
  auto fail = [&] { EXPECT_FALSE(Classify(*world, "fine", "broken").ok()); };
  auto drop = [] { EXPECT_FALSE(LogLimit(0).Lets()); };
  auto nothing = [] {};
  std::set<std::string> moved;

  // What grows when something happens.
  const std::map<std::string, std::function<void()>> growing = {
      {"grpc_server_started_total", classify},
      {"grpc_server_msg_received_total", classify},
      {"grpc_server_msg_sent_total", generate},
      {"grpc_server_handled_total", classify},
      {"grpc_server_handling_seconds", classify},
      {"heed_request_success_total", classify},
      {"heed_request_failure_total", refuse},
      {"heed_e2e_request_latency_seconds", classify},
      {"heed_request_tokenization_time_seconds", classify},
      {"heed_request_queue_time_seconds", classify},
      {"heed_request_prefill_time_seconds", classify},
      {"heed_batch_size", classify},
      {"heed_batch_tokens", classify},
      {"heed_prompt_tokens_total", classify},
      {"heed_generation_tokens_total", generate},
      {"heed_request_decode_time_seconds", generate},
      {"heed_time_to_first_token_seconds", generate},
      {"heed_inter_token_latency_seconds", generate},
      {"heed_stream_time_to_first_token_seconds", generate},
      {"heed_stream_inter_token_seconds", generate},
      {"heed_model_failures_total", fail},
      {"heed_log_lines_dropped_total", drop},
      {"heed_deadline_missed_total", [&] { WhileOneRuns(*world, /*until_deadline=*/true, nothing); }},
      {"process_cpu_seconds_total", classify},
      {"exposer_scrapes_total", nothing},
      {"exposer_transferred_bytes_total", nothing},
      {"exposer_request_latencies", nothing},
  };
  for (const auto& [family, mover] : growing) {
    grows(family, mover);
    moved.insert(family);
  }

  // What is there while something runs, and gone after it.
  const std::set<std::string> during = {"heed_calls_in_flight", "heed_num_requests_running",
                                        "heed_state_reserved_bytes", "heed_kv_cache_usage_ratio",
                                        "heed_answer_bytes_reserved"};
  WhileOneRuns(*world, /*until_deadline=*/false, [&] {
    for (const std::string& family : during)
      EXPECT_TRUE(Eventually([&] { return MetricSum(*world, family) > 0; })) << family;
    // A second waits, and a third is shed.
    auto waiting = NewContext(), shed = NewContext();
    auto stub = world->inference();
    auto second = stub->Generate(waiting.get(), GreedyRequest("writer", "abc", 1));
    EXPECT_TRUE(Eventually([&] { return MetricSum(*world, "heed_num_requests_waiting") == 1; }));
    auto third = stub->Generate(shed.get(), GreedyRequest("writer", "abc", 1));
    EXPECT_EQ(third->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(MetricSum(*world, "heed_requests_shed_total"), 1);
    waiting->TryCancel();
    EXPECT_EQ(second->Finish().error_code(), grpc::CANCELLED);
  });
  moved.insert({"heed_num_requests_waiting", "heed_requests_shed_total"});
  for (const std::string& family : during) {
    EXPECT_TRUE(Eventually([&] { return MetricSum(*world, family) == 0; })) << family;
    moved.insert(family);
  }

  // What says how things are: it moved when the server started, from nothing.
  for (const char* family :
       {"heed_answer_limit_bytes", "heed_build_info", "heed_memory_available_bytes", "heed_isa_info",
        "heed_listener_up", "heed_model_load_seconds", "heed_model_state", "heed_state_limit_bytes",
        "process_resident_memory_bytes", "process_open_fds", "process_max_fds",
        "process_virtual_memory_bytes", "process_virtual_memory_max_bytes", "process_start_time_seconds",
        "process_threads"}) {
    EXPECT_GT(MetricSum(*world, family), 0) << family;
    moved.insert(family);
  }
  moved.insert("heed_task_failures_total");     // see tests/server/observation
  moved.insert("heed_trace_spans_total");       // see traces_test.cc
  moved.insert("heed_workspace_bytes");         // see TheWorkspaceIsThatOfThePassUnderWay
  EXPECT_EQ(Families(Metrics(*world)), moved);  // no family without a mover, no mover without a family
}

TEST(Metrics, TheWorkspaceIsThatOfThePassUnderWay) {
  Gate gate;
  auto world = World::Ready({{"reader",
                              [&] {
                                auto model = NewFakeClassifier();
                                model->workspace_row_bytes = 20;
                                model->on_layer = [&](int) { gate.Pass(); };
                                return WithBytes(std::move(model));
                              }}},
                            WithMetrics);
  auto answered = std::async(std::launch::async, [&] { return Classify(*world, "fine").ok(); });
  EXPECT_TRUE(Eventually([&] { return gate.reached() > 0; }));
  EXPECT_EQ(MetricSum(*world, "heed_workspace_bytes"), 4 * 20);
  gate.Open();
  EXPECT_TRUE(answered.get());
  EXPECT_TRUE(Eventually([&] { return MetricSum(*world, "heed_workspace_bytes") == 0; }));
}

// While the stream is open, and it has never an end.
TEST(Metrics, TokensAreCountedAsTheyAreMade) {
  auto world = NarrowWorld();
  double made = 0;
  WhileOneRuns(*world, /*until_deadline=*/false, [&] {
    EXPECT_TRUE(Eventually([&] { return MetricSum(*world, "heed_generation_tokens_total") > 10; }));
    EXPECT_TRUE(Eventually([&] { return MetricSum(*world, "heed_inter_token_latency_seconds") > 10; }));
    const std::string exposition = Metrics(*world);
    EXPECT_EQ(MetricSum(exposition, "heed_prompt_tokens_total"), 3);
    EXPECT_EQ(MetricSum(exposition, "heed_time_to_first_token_seconds"), 1);
    EXPECT_EQ(MetricSum(exposition, "heed_request_queue_time_seconds"), 1);
    EXPECT_EQ(MetricSum(exposition, "heed_request_success_total"), 0);
    made = MetricSum(exposition, "heed_generation_tokens_total");
  });
  EXPECT_TRUE(Eventually(
      [&] { return MetricSum(*world, "heed_request_failure_total", {"reason=\"CLIENT_CANCELLED\""}) == 1; }));
  EXPECT_GE(MetricSum(*world, "heed_generation_tokens_total"), made);
}

// The reader pauses: what the stream's buffer holds was made and is not taken.
TEST(Metrics, ATokenIsTakenLaterThanItIsMade) {
  auto world = NarrowWorld();
  WhileOneRuns(*world, /*until_deadline=*/false, [&] {
    EXPECT_TRUE(
        Eventually([&] { return MetricSum(*world, "heed_stream_time_to_first_token_seconds") == 1; }));
    EXPECT_TRUE(Eventually([&] {
      const std::string now = Metrics(*world);
      return MetricSum(now, "heed_inter_token_latency_seconds") -
                 MetricSum(now, "heed_stream_inter_token_seconds") >
             100;
    }));
  });
}

double Latencies(World& world, const char* outcome) {
  return MetricSum(world, "heed_e2e_request_latency_seconds", {Cat("outcome=\"", outcome, "\"")});
}

TEST(Metrics, ALatencyIsOfItsOutcome) {
  auto world = NarrowWorld();
  EXPECT_TRUE(Classify(*world, "fine").ok());
  EXPECT_FALSE(Classify(*world, "").ok());
  EXPECT_FALSE(Classify(*world, "fine", "broken").ok());
  WhileOneRuns(*world, /*until_deadline=*/false, [] {});
  for (const char* outcome : {"ok", "refused", "error", "cancelled"})
    EXPECT_TRUE(Eventually([&] { return Latencies(*world, outcome) == 1; })) << outcome;
  EXPECT_EQ(Latencies(*world, "deadline"), 0);
}

// The server's own deadline, since a client's comes with its going.
TEST(Metrics, ALatencyIsThatOfADeadline) {
  auto world = NarrowWorld([](auto& config) { config.mutable_limits()->set_deadline_seconds(1); });
  auto context = NewContext();
  auto stream = world->inference()->Generate(context.get(), EndlessRequest());
  v1::GenerateEvent event;
  EXPECT_TRUE(stream->Read(&event));  // and no more: so it cannot finish
  EXPECT_TRUE(
      Eventually([&] { return MetricSum(*world, "heed_deadline_missed_total", {"stage=\"decode\""}) == 1; }));
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([&] { return Latencies(*world, "deadline") == 1; }));
  EXPECT_EQ(Latencies(*world, "ok") + Latencies(*world, "cancelled"), 0);
}

TEST(Metrics, FailuresCarryTheirReason) {
  auto world = NarrowWorld();
  EXPECT_FALSE(Classify(*world, "").ok());
  EXPECT_FALSE(Classify(*world, std::string(100, 'x')).ok());
  EXPECT_FALSE(Classify(*world, std::string(100, 'x')).ok());
  const std::string exposition = Metrics(*world);
  auto failures = [&](const char* reason) {
    return MetricSum(exposition, "heed_request_failure_total",
                     {Cat("reason=\"", reason, "\""), "code=\"InvalidArgument\""});
  };
  EXPECT_EQ(failures("INPUT_EMPTY"), 1);
  EXPECT_EQ(failures("INPUT_TOO_LONG"), 2);
  EXPECT_EQ(MetricSum(exposition, "heed_requests_shed_total"), 0);  // no load would have let them in
}

// An alert on an increase would not see the first failure of a counter that begins with it.
TEST(Metrics, FailuresThatAlertsWatchShowZeroBeforeTheFirst) {
  auto world = NarrowWorld();
  const std::string exposition = Metrics(*world);
  for (const char* reason : {"CLIENT_STALLED", "MODEL_ERROR", "OUTPUT_NOT_FINITE"})
    EXPECT_NE(exposition.find(Cat("reason=\"", reason, "\"")), std::string::npos) << reason;
  EXPECT_EQ(MetricSum(exposition, "heed_request_failure_total"), 0);
}

// An input that is refused is shed once, however many samples were asked for.
TEST(Metrics, WhatIsShedCountsOnce) {
  auto world = NarrowWorld();
  WhileOneRuns(*world, /*until_deadline=*/false, [&] {
    auto waiting = NewContext(), shed = NewContext();
    auto stub = world->inference();
    auto second = stub->Generate(waiting.get(), GreedyRequest("writer", "abc", 1));
    EXPECT_TRUE(Eventually([&] { return MetricSum(*world, "heed_num_requests_waiting") == 1; }));
    v1::GenerateRequest request = GreedyRequest("writer", "abc", 1);
    request.mutable_sampling()->set_temperature(1);
    request.mutable_sampling()->set_samples(3);
    *request.add_inputs() = request.inputs(0);
    EXPECT_EQ(stub->Generate(shed.get(), request)->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(MetricSum(*world, "heed_requests_shed_total"), 2);
    EXPECT_EQ(
        MetricSum(*world, "heed_requests_shed_total", {"reason=\"QUEUE_FULL\"", "model_name=\"writer\""}), 2);
    waiting->TryCancel();
    second->Finish();
  });
}

TEST(Metrics, ARequestThatTheEdgeRefusesIsShed) {
  auto world = NarrowWorld([](auto& config) { config.mutable_limits()->set_requests(1); });
  WhileOneRuns(*world, /*until_deadline=*/false, [&] {
    EXPECT_EQ(Classify(*world, "fine").error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(MetricSum(*world, "heed_requests_shed_total"), 1);
    EXPECT_EQ(MetricSum(*world, "heed_requests_shed_total", {"reason=\"TOO_MANY_REQUESTS\""}), 1);
  });
}

TEST(Metrics, AModelsStateIsOneOfThree) {
  World world(
      {{"good", [] { return WithBytes(NewFakeClassifier()); }},
       {"lost", []() -> absl::StatusOr<LoadedModel> { return absl::NotFoundError("no such folder"); }}},
      [](config::v1::ServerConfig& config) {
        WithMetrics(config);
        config.set_strict(false);
      });
  auto is = [&](const char* model, const char* state) {
    return MetricSum(world, "heed_model_state",
                     {Cat("model_name=\"", model, "\""), Cat("state=\"", state, "\"")});
  };
  EXPECT_EQ(is("good", "loading"), 1);
  EXPECT_EQ(MetricSum(world, "heed_model_state"), 2);
  EXPECT_TRUE(world.server().Load().ok());
  EXPECT_EQ(is("good", "loading"), 0);
  EXPECT_EQ(is("good", "ready"), 1);
  EXPECT_EQ(is("lost", "failed"), 1);
  EXPECT_EQ(MetricSum(world, "heed_model_state"), 2);
}

TEST(Metrics, APassThatThrowsIsCountedAndLogged) {
  auto world = NarrowWorld();
  FlushLog();
  testing::internal::CaptureStderr();
  EXPECT_FALSE(Classify(*world, "fine", "broken").ok());
  EXPECT_EQ(MetricSum(*world, "heed_model_failures_total", {"model_name=\"broken\""}), 1);
  EXPECT_EQ(MetricSum(*world, "heed_model_failures_total"), 1);
  FlushLog();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr(R"("event":"pass failed","model":"broken","error":"a weight is lost"})"));
}

}  // namespace
}  // namespace heed
