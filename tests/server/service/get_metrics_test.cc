// GetMetrics says what the page for Prometheus says, of the same moment if both are asked at once.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using testing::AllOf;
using testing::HasSubstr;

grpc::Status Ask(World& world, const std::vector<std::string>& prefixes, v1::GetMetricsResponse* response) {
  v1::GetMetricsRequest request;
  request.mutable_prefixes()->Assign(prefixes.begin(), prefixes.end());
  return v1::Server::NewStub(world.channel())->GetMetrics(NewContext().get(), request, response);
}

v1::GetMetricsResponse MetricsOf(World& world, const std::vector<std::string>& prefixes = {}) {
  v1::GetMetricsResponse response;
  const grpc::Status status = Ask(world, prefixes, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

void Classify(World& world, const std::string& text, bool good) {
  v1::ClassifyRequest request;
  request.add_inputs()->set_text(text);
  v1::ClassifyResponse response;
  EXPECT_EQ(world.inference()->Classify(NewContext().get(), request, &response).ok(), good);
}

// The page's lines: series and number.
using Series = std::map<std::string, double>;

Series OfPage(const std::string& exposition) {
  Series series;
  std::string line;
  for (std::istringstream lines(exposition.substr(exposition.find("# HELP"))); std::getline(lines, line);) {
    if (line.empty() || line[0] == '#' || line.starts_with("exposer_")) continue;
    const size_t space = line.rfind(' ');
    std::string name = line.substr(0, space);
    if (const size_t bound = name.find("le=\""); bound != name.npos)  // its digits, as we write them
      name = Cat(name.substr(0, bound + 4), std::stod(name.substr(bound + 4)), "\"}");
    series[name] = std::stod(line.substr(space));
  }
  return series;
}

std::string Braced(std::vector<std::string> labels, const std::string& last = "") {
  if (!last.empty()) labels.push_back(last);
  return labels.empty() ? "" : Cat("{", absl::StrJoin(labels, ","), "}");
}

Series OfAnswer(const v1::GetMetricsResponse& response) {
  Series series;
  for (const v1::MetricFamily& family : response.families()) {
    for (const v1::Metric& metric : family.metrics()) {
      std::vector<std::string> labels;
      for (const auto& [name, value] : metric.labels()) labels.push_back(Cat(name, "=\"", value, "\""));
      std::ranges::sort(labels);
      if (metric.has_value()) series[family.name() + Braced(labels)] = metric.value();
      if (!metric.has_histogram()) continue;
      series[family.name() + "_count" + Braced(labels)] = static_cast<double>(metric.histogram().count());
      series[family.name() + "_sum" + Braced(labels)] = metric.histogram().sum();
      for (const v1::MetricBucket& bucket : metric.histogram().buckets()) {
        series[family.name() + "_bucket" + Braced(labels, Cat("le=\"", bucket.upper_bound(), "\""))] =
            static_cast<double>(bucket.cumulative_count());
      }
    }
  }
  return series;
}

TEST(GetMetrics, SaysWhatThePageSays) {
  auto world = World::Ready(OneClassifier(), WithMetrics);
  Classify(*world, "fine", true);
  Classify(*world, "", false);
  for (const char* held : {"heed_num_requests_running", "heed_state_reserved_bytes", "heed_workspace_bytes",
                           "heed_answer_bytes_reserved"})
    ASSERT_TRUE(Eventually([&] { return MetricSum(*world, held) == 0; })) << held;
  const Series answered = OfAnswer(MetricsOf(*world)), shown = OfPage(Metrics(*world));
  EXPECT_GT(answered.size(), 200u);
  const std::set<std::string> moving = {"heed_calls_in_flight", "heed_memory_available_bytes"};
  for (const auto& [name, value] : shown) {
    ASSERT_TRUE(answered.contains(name)) << name;
    if (name.starts_with("heed_") && !moving.contains(name)) {
      EXPECT_EQ(Cat(answered.at(name)), Cat(value)) << name;
    }
  }
  for (const auto& [name, value] : answered) EXPECT_TRUE(shown.contains(name)) << name;
}

TEST(GetMetrics, TypesAndWordsAreThePages) {
  auto world = World::Ready(OneClassifier(), WithMetrics);
  const auto exposed = ParseExposition(Metrics(*world));
  const v1::GetMetricsResponse response = MetricsOf(*world);
  std::set<std::string> names;
  for (const v1::MetricFamily& family : response.families()) {
    EXPECT_TRUE(names.insert(family.name()).second) << family.name();
    ASSERT_TRUE(exposed.contains(family.name())) << family.name();
    EXPECT_EQ(family.help(), exposed.at(family.name()).help);
    const std::map<v1::MetricType, std::string> types = {{v1::METRIC_TYPE_COUNTER, "counter"},
                                                         {v1::METRIC_TYPE_GAUGE, "gauge"},
                                                         {v1::METRIC_TYPE_HISTOGRAM, "histogram"}};
    EXPECT_EQ(types.at(family.type()), exposed.at(family.name()).type) << family.name();
  }
}

TEST(GetMetrics, PrefixesChooseFamilies) {
  auto world = World::Ready(OneClassifier());
  const v1::GetMetricsResponse response = MetricsOf(*world, {"heed_state_", "process_threads"});
  std::vector<std::string> names;
  for (const v1::MetricFamily& family : response.families()) names.push_back(family.name());
  EXPECT_THAT(names, testing::UnorderedElementsAre("heed_state_limit_bytes", "heed_state_reserved_bytes",
                                                   "process_threads"));
  EXPECT_EQ(MetricsOf(*world, {"nothing_"}).families_size(), 0);
  EXPECT_EQ(MetricsOf(*world, std::vector<std::string>(64, std::string(128, 'x'))).families_size(), 0);
}

TEST(GetMetrics, RefusesPrefixesByName) {
  auto world = World::Ready(OneClassifier());
  const auto refusal = [&](const std::vector<std::string>& prefixes) {
    v1::GetMetricsResponse response;
    const grpc::Status status = Ask(*world, prefixes, &response);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    return status.error_message();
  };
  EXPECT_THAT(refusal(std::vector<std::string>(65, "heed_")),
              AllOf(HasSubstr("prefixes: "), HasSubstr("65"), HasSubstr("64")));
  EXPECT_THAT(refusal({"heed_", ""}), HasSubstr("prefixes[1]: it has 0 bytes, must have 1 to 128"));
  EXPECT_THAT(refusal({std::string(129, 'x')}), HasSubstr("prefixes[0]: it has 129 bytes"));
}

// The page is not needed for it, nor a model.
TEST(GetMetrics, AreAnsweredWhileModelsLoad) {
  World world(OneClassifier());
  const Series before = OfAnswer(MetricsOf(world, {"heed_model_state", "grpc_server_started_total"}));
  EXPECT_EQ(before.at(R"(heed_model_state{model_name="m",model_version="1",state="loading"})"), 1);
  const std::string asked =
      "grpc_server_started_total{grpc_method=\"GetMetrics\",grpc_service=\"heed.v1."
      "Server\",grpc_type=\"unary\"}";
  EXPECT_EQ(before.at(asked), 1);
  EXPECT_EQ(OfAnswer(MetricsOf(world)).at(asked), 2);
}

TEST(GetMetrics, TellTheTimeBetweenThem) {
  World world(OneClassifier());
  const double first = MetricsOf(world).uptime_seconds(), second = MetricsOf(world).uptime_seconds();
  EXPECT_GT(first, 0);
  EXPECT_GT(second, first);
}

TEST(GetMetrics, AreRefusedWhereNoMessageHoldsThem) {
  auto world = World::Ready(OneClassifier(), [](config::v1::ServerConfig& config) {
    config.mutable_transport()->set_send_bytes(7777);
  });
  v1::GetMetricsResponse response;
  const grpc::Status status = Ask(*world, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("7777"), HasSubstr("prefixes")));
  EXPECT_EQ(MetricsOf(*world, {"heed_state_"}).families_size(), 2);
}

}  // namespace
}  // namespace heed
