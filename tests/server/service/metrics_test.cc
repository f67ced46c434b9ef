// Every family of metrics that is exported is seen to move.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using testing::HasSubstr;

// The families of an exposition: what its TYPE lines name.
std::set<std::string> Families(const std::string& exposition) {
  std::set<std::string> families;
  std::string line, word;
  for (std::istringstream lines{exposition}; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) families.insert(line.substr(7, line.find(' ', 7) - 7));
  }
  return families;
}

// What a family counts: its values, or for a histogram or summary its observations.
double Value(const std::string& exposition, const std::string& family) {
  const bool observes = exposition.find("\n" + family + "_count") != exposition.npos;
  return MetricSum(exposition, observes ? family + "_count" : family);
}

grpc::Status Classify(World& world, const std::string& text) {
  v1::ClassifyRequest request;
  request.mutable_target()->set_model("reader");
  request.add_inputs()->set_text(text);
  v1::ClassifyResponse response;
  return world.inference()->Classify(NewContext().get(), request, &response);
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
  auto world = World::Ready({{"reader", [] { return WithBytes(NewFakeClassifier()); }},
                             {"writer", [] { return WithBytes(NewFakeWriter(60'000)); }}},
                            [](config::v1::ServerConfig& config) {
                              WithMetrics(config);
                              config.mutable_scheduling()->set_max_queued(1);
                              config.mutable_scheduling()->set_max_running(1);
                            });
  auto grows = [&](const std::string& family, const std::function<void()>& mover) {
    const double was = Value(Metrics(*world), family);
    mover();
    EXPECT_TRUE(Eventually([&] { return Value(Metrics(*world), family) > was; })) << family;
  };
  auto classify = [&] { EXPECT_TRUE(Classify(*world, "fine").ok()); };
  auto refuse = [&] { EXPECT_FALSE(Classify(*world, "").ok()); };
  auto generate = [&] { Generate(*world); };
  auto nothing = [] {};
  std::set<std::string> moved;

  // What grows when something happens.
  const std::map<std::string, std::function<void()>> growing = {
      {"grpc_server_started_total", classify},
      {"grpc_server_handled_total", classify},
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
                                        "heed_state_reserved_bytes", "heed_kv_cache_usage_ratio"};
  WhileOneRuns(*world, /*until_deadline=*/false, [&] {
    for (const std::string& family : during)
      EXPECT_TRUE(Eventually([&] { return Value(Metrics(*world), family) > 0; })) << family;
    // A second waits, and a third is shed.
    auto waiting = NewContext(), shed = NewContext();
    auto stub = world->inference();
    auto second = stub->Generate(waiting.get(), GreedyRequest("writer", "abc", 1));
    EXPECT_TRUE(Eventually([&] { return Value(Metrics(*world), "heed_num_requests_waiting") == 1; }));
    auto third = stub->Generate(shed.get(), GreedyRequest("writer", "abc", 1));
    EXPECT_EQ(third->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(Value(Metrics(*world), "heed_requests_shed_total"), 1);
    waiting->TryCancel();
    EXPECT_EQ(second->Finish().error_code(), grpc::CANCELLED);
  });
  moved.insert({"heed_num_requests_waiting", "heed_requests_shed_total"});
  for (const std::string& family : during) {
    EXPECT_TRUE(Eventually([&] { return Value(Metrics(*world), family) == 0; })) << family;
    moved.insert(family);
  }

  // What says how things are: it moved when the server started, from nothing.
  for (const char* family :
       {"heed_build_info", "heed_isa_info", "heed_model_load_seconds", "heed_state_limit_bytes",
        "heed_listener_up", "process_resident_memory_bytes", "process_open_fds"}) {
    EXPECT_GT(Value(Metrics(*world), family), 0) << family;
    moved.insert(family);
  }
  EXPECT_EQ(Families(Metrics(*world)), moved);  // no family without a mover, no mover without a family
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
