// Every family of metrics that is exported is seen to move, when and as it should.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "server/error.h"
#include "server/methods.h"
#include "server/observation/codes.h"
#include "server/observation/gauges.h"
#include "server/observation/log.h"
#include "server/observation/metrics.h"
#include "server/workers.h"
#include "tests/server/service/exposition.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using testing::HasSubstr;

using Labels = std::vector<std::string>;

// What a family counts: its values, or for a histogram or summary its observations; of those lines that have
// the labels.
double Value(const std::string& exposition, const std::string& family, const Labels& labels = {}) {
  const bool observes = exposition.find("\n" + family + "_count") != exposition.npos;
  const std::string name = observes ? family + "_count" : family;
  double sum = 0;
  std::string line;
  for (std::istringstream lines{exposition}; std::getline(lines, line);) {
    const bool has =
        std::ranges::all_of(labels, [&](const auto& label) { return line.find(label) != line.npos; });
    if (has && (line.starts_with(name + " ") || line.starts_with(name + "{")))
      sum += std::stod(line.substr(line.rfind(' ')));
  }
  return sum;
}
double Value(World& world, const std::string& family, const Labels& labels = {}) {
  return Value(Metrics(world), family, labels);
}

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
                        WithMetrics(config);
                        config.mutable_scheduling()->set_max_queued(1);
                        config.mutable_scheduling()->set_max_running(1);
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
    const double was = Value(*world, family);
    mover();
    EXPECT_TRUE(Eventually([&] { return Value(*world, family) > was; })) << family;
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
      EXPECT_TRUE(Eventually([&] { return Value(*world, family) > 0; })) << family;
    // A second waits, and a third is shed.
    auto waiting = NewContext(), shed = NewContext();
    auto stub = world->inference();
    auto second = stub->Generate(waiting.get(), GreedyRequest("writer", "abc", 1));
    EXPECT_TRUE(Eventually([&] { return Value(*world, "heed_num_requests_waiting") == 1; }));
    auto third = stub->Generate(shed.get(), GreedyRequest("writer", "abc", 1));
    EXPECT_EQ(third->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(Value(*world, "heed_requests_shed_total"), 1);
    waiting->TryCancel();
    EXPECT_EQ(second->Finish().error_code(), grpc::CANCELLED);
  });
  moved.insert({"heed_num_requests_waiting", "heed_requests_shed_total"});
  for (const std::string& family : during) {
    EXPECT_TRUE(Eventually([&] { return Value(*world, family) == 0; })) << family;
    moved.insert(family);
  }

  // What says how things are: it moved when the server started, from nothing.
  for (const char* family :
       {"heed_build_info", "heed_isa_info", "heed_listener_up", "heed_model_load_seconds", "heed_model_state",
        "heed_state_limit_bytes", "process_resident_memory_bytes", "process_open_fds", "process_max_fds",
        "process_virtual_memory_bytes", "process_virtual_memory_max_bytes", "process_start_time_seconds",
        "process_threads"}) {
    EXPECT_GT(Value(*world, family), 0) << family;
    moved.insert(family);
  }
  moved.insert("heed_task_failures_total");     // see TasksThatThrowAreCounted
  EXPECT_EQ(Families(Metrics(*world)), moved);  // no family without a mover, no mover without a family
}

TEST(Metrics, TasksThatThrowAreCounted) {
  class Metrics metrics(kMethods, 0);
  Workers workers(1, metrics.Events().failed);
  workers.Run([] { throw std::runtime_error("no memory"); });
  auto count = [&] {
    const std::string text = prometheus::TextSerializer().Serialize(metrics.families()->Collect());
    return Value(text, "heed_task_failures_total");
  };
  EXPECT_TRUE(Eventually([&] { return count() == 1; }));
}

// What a server does not keep is not exposed as 0.
TEST(Metrics, GaugesAreOfTheSourcesGiven) {
  const Registry none({}, nullptr, &Clock::Real());
  auto families = [&](GaugeSources sources) {
    return prometheus::TextSerializer().Serialize(Gauges(&none, std::move(sources)).Collect());
  };
  const std::string all = families({.calls_in_flight = [] { return 3; },
                                    .listener_up = [] { return true; },
                                    .answer_bytes_reserved = [] { return 1 << 20; }});
  EXPECT_EQ(Value(all, "heed_calls_in_flight"), 3);
  EXPECT_EQ(Value(all, "heed_listener_up"), 1);
  EXPECT_EQ(Value(all, "heed_answer_bytes_reserved"), 1 << 20);
  EXPECT_FALSE(Families(families({})).contains("heed_listener_up"));
}

// Every method of the services' definitions, with every code, before the first call.
TEST(Metrics, EveryMethodIsThereFromTheBeginning) {
  World world({{"reader", [] { return WithBytes(NewFakeClassifier()); }}}, WithMetrics);
  const std::string exposition = Metrics(world);
  int methods = 0;
  for (const auto* service : {v1::ClassifyRequest::descriptor()->file()->service(0),
                              v1::ListModelsRequest::descriptor()->file()->service(0),
                              v1::DescribeServerRequest::descriptor()->file()->service(0),
                              grpc::health::v1::HealthCheckRequest::descriptor()->file()->service(0)}) {
    for (int i = 0; i < service->method_count(); ++i, ++methods) {
      const auto* method = service->method(i);
      const std::string labels =
          Cat("grpc_method=\"", method->name(), "\",grpc_service=\"", service->full_name(), "\",grpc_type=\"",
              method->server_streaming() ? "server_stream" : "unary", "\"}");
      EXPECT_THAT(exposition, HasSubstr("\ngrpc_server_started_total{" + labels + " 0\n"));
      for (const char* code : {"OK", "Canceled", "InvalidArgument", "ResourceExhausted", "Unauthenticated"})
        EXPECT_THAT(exposition,
                    HasSubstr(Cat("\ngrpc_server_handled_total{grpc_code=\"", code, "\",", labels, " 0\n")));
    }
  }
  EXPECT_EQ(methods, static_cast<int>(std::size(kMethods)));
  for (size_t i = 0; i < std::size(kMethods); ++i) EXPECT_EQ(kMethods[i].index, static_cast<int>(i));
}

// As Go's codes.Code.String() writes them.
TEST(Metrics, CodesAreSpeltAsTheMiddlewaresSpellThem) {
  const std::map<absl::StatusCode, std::string> names = {
      {absl::StatusCode::kOk, "OK"},
      {absl::StatusCode::kCancelled, "Canceled"},
      {absl::StatusCode::kUnknown, "Unknown"},
      {absl::StatusCode::kInvalidArgument, "InvalidArgument"},
      {absl::StatusCode::kDeadlineExceeded, "DeadlineExceeded"},
      {absl::StatusCode::kNotFound, "NotFound"},
      {absl::StatusCode::kAlreadyExists, "AlreadyExists"},
      {absl::StatusCode::kPermissionDenied, "PermissionDenied"},
      {absl::StatusCode::kResourceExhausted, "ResourceExhausted"},
      {absl::StatusCode::kFailedPrecondition, "FailedPrecondition"},
      {absl::StatusCode::kAborted, "Aborted"},
      {absl::StatusCode::kOutOfRange, "OutOfRange"},
      {absl::StatusCode::kUnimplemented, "Unimplemented"},
      {absl::StatusCode::kInternal, "Internal"},
      {absl::StatusCode::kUnavailable, "Unavailable"},
      {absl::StatusCode::kDataLoss, "DataLoss"},
      {absl::StatusCode::kUnauthenticated, "Unauthenticated"}};
  for (const auto& [code, name] : names) EXPECT_EQ(CodeName(code), name);
}

TEST(Metrics, ModelsShowZeroBeforeTheirFirstRequest) {
  auto world = NarrowWorld();
  const std::string exposition = Metrics(*world);
  for (const char* series :
       {"heed_request_success_total{attention=\"full\",finished_reason=\"stop\"", "heed_prompt_tokens_total{",
        "heed_e2e_request_latency_seconds_count{attention=\"full\",model_name=\"reader\",model_version=\"1\","
        "outcome=\"deadline\"",
        "heed_requests_shed_total{attention=\"full\",model_name=\"writer\",model_version=\"1\",reason="
        "\"QUEUE_FULL\"",
        "heed_model_failures_total{", "heed_time_to_first_token_seconds_count{"})
    EXPECT_THAT(exposition, HasSubstr(std::string("\n") + series));
  EXPECT_EQ(Value(exposition, "heed_prompt_tokens_total"), 0);
}

// While the stream is open, and it has never an end.
TEST(Metrics, TokensAreCountedAsTheyAreMade) {
  auto world = NarrowWorld();
  double made = 0;
  WhileOneRuns(*world, /*until_deadline=*/false, [&] {
    EXPECT_TRUE(Eventually([&] { return Value(*world, "heed_generation_tokens_total") > 10; }));
    EXPECT_TRUE(Eventually([&] { return Value(*world, "heed_inter_token_latency_seconds") > 10; }));
    const std::string exposition = Metrics(*world);
    EXPECT_EQ(Value(exposition, "heed_prompt_tokens_total"), 3);
    EXPECT_EQ(Value(exposition, "heed_time_to_first_token_seconds"), 1);
    EXPECT_EQ(Value(exposition, "heed_request_queue_time_seconds"), 1);
    EXPECT_EQ(Value(exposition, "heed_request_success_total"), 0);
    made = Value(exposition, "heed_generation_tokens_total");
  });
  EXPECT_TRUE(Eventually(
      [&] { return Value(*world, "heed_request_failure_total", {"reason=\"CLIENT_CANCELLED\""}) == 1; }));
  EXPECT_GE(Value(*world, "heed_generation_tokens_total"), made);
}

// The reader pauses: what the stream's buffer holds was made and is not taken.
TEST(Metrics, ATokenIsTakenLaterThanItIsMade) {
  auto world = NarrowWorld();
  WhileOneRuns(*world, /*until_deadline=*/false, [&] {
    EXPECT_TRUE(Eventually([&] { return Value(*world, "heed_stream_time_to_first_token_seconds") == 1; }));
    EXPECT_TRUE(Eventually([&] {
      const std::string now = Metrics(*world);
      return Value(now, "heed_inter_token_latency_seconds") - Value(now, "heed_stream_inter_token_seconds") >
             100;
    }));
  });
}

double Latencies(World& world, const char* outcome) {
  return Value(world, "heed_e2e_request_latency_seconds", {Cat("outcome=\"", outcome, "\"")});
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
      Eventually([&] { return Value(*world, "heed_deadline_missed_total", {"stage=\"decode\""}) == 1; }));
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([&] { return Latencies(*world, "deadline") == 1; }));
  EXPECT_EQ(Latencies(*world, "ok") + Latencies(*world, "cancelled"), 0);
}

TEST(Metrics, OutcomesFollowFromTheReason) {
  EXPECT_EQ(OutcomeOf(absl::OkStatus()), Outcome::kOk);
  for (const auto& [reason, outcome] :
       std::map<ErrorReason, Outcome>{{ErrorReason::kInputTooLong, Outcome::kRefused},
                                      {ErrorReason::kQueueFull, Outcome::kRefused},
                                      {ErrorReason::kServerStopping, Outcome::kRefused},
                                      {ErrorReason::kClientCancelled, Outcome::kCancelled},
                                      {ErrorReason::kClientStalled, Outcome::kCancelled},
                                      {ErrorReason::kDeadlineExceeded, Outcome::kDeadline},
                                      {ErrorReason::kOutOfMemory, Outcome::kError},
                                      {ErrorReason::kTooFewResults, Outcome::kError},
                                      {ErrorReason::kModelError, Outcome::kError}})
    EXPECT_EQ(OutcomeOf(Error(reason, "so")), outcome) << Name(reason);
}

TEST(Metrics, FailuresCarryTheirReason) {
  auto world = NarrowWorld();
  EXPECT_FALSE(Classify(*world, "").ok());
  EXPECT_FALSE(Classify(*world, std::string(100, 'x')).ok());
  EXPECT_FALSE(Classify(*world, std::string(100, 'x')).ok());
  const std::string exposition = Metrics(*world);
  auto failures = [&](const char* reason) {
    return Value(exposition, "heed_request_failure_total",
                 {Cat("reason=\"", reason, "\""), "code=\"InvalidArgument\""});
  };
  EXPECT_EQ(failures("INPUT_EMPTY"), 1);
  EXPECT_EQ(failures("INPUT_TOO_LONG"), 2);
  EXPECT_EQ(Value(exposition, "heed_requests_shed_total"), 0);  // no load would have let them in
}

// An input that is refused is shed once, however many samples were asked for.
TEST(Metrics, WhatIsShedCountsOnce) {
  auto world = NarrowWorld();
  WhileOneRuns(*world, /*until_deadline=*/false, [&] {
    auto waiting = NewContext(), shed = NewContext();
    auto stub = world->inference();
    auto second = stub->Generate(waiting.get(), GreedyRequest("writer", "abc", 1));
    EXPECT_TRUE(Eventually([&] { return Value(*world, "heed_num_requests_waiting") == 1; }));
    v1::GenerateRequest request = GreedyRequest("writer", "abc", 1);
    request.mutable_sampling()->set_temperature(1);
    request.mutable_sampling()->set_samples(3);
    *request.add_inputs() = request.inputs(0);
    EXPECT_EQ(stub->Generate(shed.get(), request)->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(Value(*world, "heed_requests_shed_total"), 2);
    EXPECT_EQ(Value(*world, "heed_requests_shed_total", {"reason=\"QUEUE_FULL\"", "model_name=\"writer\""}),
              2);
    waiting->TryCancel();
    second->Finish();
  });
}

TEST(Metrics, ARequestThatTheEdgeRefusesIsShed) {
  auto world = NarrowWorld([](auto& config) { config.mutable_limits()->set_requests(1); });
  WhileOneRuns(*world, /*until_deadline=*/false, [&] {
    EXPECT_EQ(Classify(*world, "fine").error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(Value(*world, "heed_requests_shed_total"), 1);
    EXPECT_EQ(Value(*world, "heed_requests_shed_total", {"reason=\"TOO_MANY_REQUESTS\""}), 1);
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
    return Value(world, "heed_model_state",
                 {Cat("model_name=\"", model, "\""), Cat("state=\"", state, "\"")});
  };
  EXPECT_EQ(is("good", "loading"), 1);
  EXPECT_EQ(Value(world, "heed_model_state"), 2);
  EXPECT_TRUE(world.server().Load().ok());
  EXPECT_EQ(is("good", "loading"), 0);
  EXPECT_EQ(is("good", "ready"), 1);
  EXPECT_EQ(is("lost", "failed"), 1);
  EXPECT_EQ(Value(world, "heed_model_state"), 2);
}

TEST(Metrics, APassThatThrowsIsCountedAndLogged) {
  auto world = NarrowWorld();
  FlushLog();
  testing::internal::CaptureStderr();
  EXPECT_FALSE(Classify(*world, "fine", "broken").ok());
  EXPECT_EQ(Value(*world, "heed_model_failures_total", {"model_name=\"broken\""}), 1);
  EXPECT_EQ(Value(*world, "heed_model_failures_total"), 1);
  FlushLog();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr(R"("event":"pass failed","model":"broken","error":"a weight is lost"})"));
}

// What takes 5 ms and what takes 5 minutes are both known within a factor of 2.5.
TEST(Metrics, BucketsSuitMicrosecondsAndMinutes) {
  const std::vector<double> buckets = DurationBuckets();
  EXPECT_EQ(buckets.front(), 100e-6);
  EXPECT_EQ(buckets.back(), 600);
  for (size_t i = 1; i < buckets.size(); ++i)
    EXPECT_LE(buckets[i] / buckets[i - 1], 2.5 + 1e-9) << buckets[i];
}

TEST(Metrics, BucketsAreTheConfigs) {
  auto world = NarrowWorld([](auto& config) {
    for (double bound : {0.125, 0.5}) config.mutable_metrics()->add_duration_buckets(bound);
  });
  std::set<std::string> bounds;
  const std::string exposition = Metrics(*world);
  const std::regex bound(R"(_seconds_bucket\{.*le="([^"]+)\"\})");
  for (std::sregex_iterator it(exposition.begin(), exposition.end(), bound), end; it != end; ++it)
    bounds.insert((*it)[1]);
  EXPECT_EQ(bounds, (std::set<std::string>{"0.125", "0.5", "+Inf"}));
}

TEST(Metrics, TheProcessIsToldAsItIs) {
  auto world = NarrowWorld();
  const std::string exposition = Metrics(*world);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_LE(Value(exposition, "process_start_time_seconds"),
            now + 2);  // the machine's start is told in seconds
  EXPECT_GE(Value(exposition, "process_start_time_seconds"), now - 24 * 3600);
  EXPECT_GE(Value(exposition, "process_threads"), 4);
  EXPECT_GE(Value(exposition, "process_virtual_memory_bytes"),
            Value(exposition, "process_resident_memory_bytes"));
  EXPECT_GE(Value(exposition, "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GE(Value(exposition, "process_max_fds"), Value(exposition, "process_open_fds"));
}

TEST(Metrics, CarryTheModelInTheirLabels) {
  auto world = World::Ready({{"reader", [] { return WithBytes(NewFakeClassifier()); }}}, WithMetrics);
  ASSERT_TRUE(Classify(*world, "fine").ok());
  EXPECT_THAT(
      Metrics(*world),
      HasSubstr(
          "heed_request_success_total{attention=\"full\",finished_reason=\"complete\",model_name=\"reader\","
          "model_version=\"1\",task=\"classification\"} 1\n"));
}

TEST(Metrics, HaveNoLabelFromARequest) {
  auto world = World::Ready({{"reader", [] { return WithBytes(NewFakeClassifier()); }}}, WithMetrics);
  v1::ClassifyRequest request;
  request.mutable_target()->set_model("attacker-chosen");
  request.add_inputs()->set_text("secret words");
  v1::ClassifyResponse response;
  EXPECT_FALSE(world->inference()->Classify(NewContext().get(), request, &response).ok());
  const std::string metrics = Metrics(*world);
  EXPECT_EQ(metrics.find("attacker"), metrics.npos);
  EXPECT_EQ(metrics.find("secret"), metrics.npos);
}

TEST(Metrics, AreGivenByGetAndAtTheirPathOnly) {
  auto world = World::Ready({{"reader", [] { return WithBytes(NewFakeClassifier()); }}}, WithMetrics);
  auto status = [&](const std::string& request) {
    return AskPort(world->server().metrics_port(),
                   request + " HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .substr(9, 3);
  };
  EXPECT_EQ(status("GET /metrics"), "200");
  EXPECT_EQ(status("GET /"), "404");
  EXPECT_EQ(status("GET /../../etc/passwd").substr(0, 1), "4");
  EXPECT_EQ(status("POST /metrics"), "404");
  EXPECT_EQ(status("GET /" + std::string(8000, 'x')).substr(0, 1), "4");
}

}  // namespace
}  // namespace heed
