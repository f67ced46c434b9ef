// What a scrape gives, and to whom: all of it from the beginning, nothing of a request.
#include <chrono>
#include <functional>
#include <memory>
#include <regex>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/methods.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using testing::HasSubstr;

std::unique_ptr<World> OneReader(const std::function<void(config::v1::ServerConfig&)>& change = [](auto&) {
}) {
  return World::Ready({{"reader", [] { return WithBytes(NewFakeClassifier()); }}},
                      [&](config::v1::ServerConfig& config) {
                        WithMetrics(config);
                        change(config);
                      });
}

// Every method of the services' definitions, with every code, before the first call.
TEST(MetricsPage, EveryMethodIsThereFromTheBeginning) {
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

TEST(MetricsPage, ModelsShowZeroBeforeTheirFirstRequest) {
  auto world = OneReader();
  const std::string exposition = Metrics(*world);
  for (const char* series :
       {"heed_request_success_total{attention=\"full\",finished_reason=\"stop\"", "heed_prompt_tokens_total{",
        "heed_e2e_request_latency_seconds_count{attention=\"full\",model_name=\"reader\",model_version=\"1\","
        "outcome=\"deadline\"",
        "heed_requests_shed_total{attention=\"full\",model_name=\"reader\",model_version=\"1\",reason="
        "\"QUEUE_FULL\"",
        "heed_model_failures_total{", "heed_time_to_first_token_seconds_count{"})
    EXPECT_THAT(exposition, HasSubstr(std::string("\n") + series));
  EXPECT_EQ(MetricSum(exposition, "heed_prompt_tokens_total"), 0);
}

TEST(MetricsPage, BucketsAreTheConfigs) {
  auto world = OneReader([](auto& config) {
    for (double bound : {0.125, 0.5}) config.mutable_metrics()->add_duration_buckets(bound);
  });
  std::set<std::string> bounds;
  const std::string exposition = Metrics(*world);
  const std::regex bound(R"(_seconds_bucket\{.*le="([^"]+)\"\})");
  for (std::sregex_iterator it(exposition.begin(), exposition.end(), bound), end; it != end; ++it)
    bounds.insert((*it)[1]);
  EXPECT_EQ(bounds, (std::set<std::string>{"0.125", "0.5", "+Inf"}));
}

TEST(MetricsPage, TheProcessIsToldAsItIs) {
  auto world = OneReader();
  const std::string exposition = Metrics(*world);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_LE(MetricSum(exposition, "process_start_time_seconds"),
            now + 2);  // the machine's start is told in seconds
  EXPECT_GE(MetricSum(exposition, "process_start_time_seconds"), now - 24 * 3600);
  EXPECT_GE(MetricSum(exposition, "process_threads"), 4);
  EXPECT_GE(MetricSum(exposition, "process_virtual_memory_bytes"),
            MetricSum(exposition, "process_resident_memory_bytes"));
  EXPECT_GE(MetricSum(exposition, "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GE(MetricSum(exposition, "process_max_fds"), MetricSum(exposition, "process_open_fds"));
}

TEST(MetricsPage, CarryTheModelInTheirLabels) {
  auto world = OneReader();
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("fine");
  v1::ClassifyResponse response;
  ASSERT_TRUE(world->inference()->Classify(NewContext().get(), request, &response).ok());
  EXPECT_THAT(
      Metrics(*world),
      HasSubstr(
          "heed_request_success_total{attention=\"full\",finished_reason=\"complete\",model_name=\"reader\","
          "model_version=\"1\",task=\"classification\"} 1\n"));
}

TEST(MetricsPage, HaveNoLabelFromARequest) {
  auto world = OneReader();
  v1::ClassifyRequest request;
  request.mutable_target()->set_model("attacker-chosen");
  request.add_inputs()->set_text("secret words");
  v1::ClassifyResponse response;
  EXPECT_FALSE(world->inference()->Classify(NewContext().get(), request, &response).ok());
  const std::string metrics = Metrics(*world);
  EXPECT_EQ(metrics.find("attacker"), metrics.npos);
  EXPECT_EQ(metrics.find("secret"), metrics.npos);
}

TEST(MetricsPage, AreGivenByGetAndAtTheirPathOnly) {
  auto world = OneReader();
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
