#include "client/cli/rates.h"

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/metrics.h"

namespace heed::cli {
namespace {

using testing::ElementsAre;
using testing::Optional;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of one model "m" that is ready.
MadeMetrics OneModel(double uptime) {
  MadeMetrics made(uptime);
  made.Value("process_start_time_seconds", 1000);
  made.Model("m", "ready");
  return made;
}

TEST(Rates, AreWhatMovedByTheTimeBetween) {
  MadeMetrics before = OneModel(10), now = OneModel(14);
  before.Value("heed_prompt_tokens_total", 100, {{"model_name", "m"}});
  now.Value("heed_prompt_tokens_total", 300, {{"model_name", "m"}});
  before.Value("heed_generation_tokens_total", 7, {{"model_name", "m"}});
  now.Value("heed_generation_tokens_total", 9, {{"model_name", "m"}});
  before.Value("process_cpu_seconds_total", 1);
  now.Value("process_cpu_seconds_total", 7);
  const ServerActivity activity = Between(&before.answer, now.answer);
  EXPECT_THAT(activity.cpus, Optional(1.5));
  ASSERT_EQ(activity.models.size(), 1u);
  EXPECT_THAT(activity.models[0].prompt_tokens, Optional(50.0));
  EXPECT_THAT(activity.models[0].generated_tokens, Optional(0.5));
}

TEST(Rates, ErrorsAreTheRequestsThatWereNotAnswered) {
  MadeMetrics before = OneModel(0), now = OneModel(2);
  for (const auto& [outcome, count] :
       std::map<std::string, int>{{"ok", 6}, {"refused", 1}, {"deadline", 3}}) {
    const Labels labels = {{"model_name", "m"}, {"outcome", outcome}};
    before.Observed("heed_e2e_request_latency_seconds", {{1, 0}, {kInfinity, 0}}, labels);
    now.Observed("heed_e2e_request_latency_seconds", {{1, count}, {kInfinity, 0}}, labels);
  }
  const ModelActivity model = Between(&before.answer, now.answer).models.at(0);
  EXPECT_THAT(model.requests, Optional(5.0));
  EXPECT_THAT(model.errors, Optional(2.0));
}

TEST(Rates, LatenciesAreOfTheIntervalAndOfAnswers) {
  MadeMetrics before = OneModel(0), now = OneModel(1);
  const Labels ok = {{"model_name", "m"}, {"outcome", "ok"}};
  const Labels refused = {{"model_name", "m"}, {"outcome", "refused"}};
  before.Observed("heed_e2e_request_latency_seconds", {{0.1, 1000}, {0.2, 0}, {0.4, 0}, {kInfinity, 0}}, ok);
  now.Observed("heed_e2e_request_latency_seconds", {{0.1, 1000}, {0.2, 10}, {0.4, 10}, {kInfinity, 0}}, ok);
  before.Observed("heed_e2e_request_latency_seconds", {{0.1, 0}, {kInfinity, 0}}, refused);
  now.Observed("heed_e2e_request_latency_seconds", {{0.1, 5000}, {kInfinity, 0}}, refused);
  const ModelActivity model = Between(&before.answer, now.answer).models.at(0);
  ASSERT_TRUE(model.latency_p50 && model.latency_p95);
  EXPECT_NEAR(*model.latency_p50, 0.2, 1e-9);
  EXPECT_NEAR(*model.latency_p95, 0.38, 1e-9);
  EXPECT_EQ(model.queue_p95, std::nullopt);  // nothing was observed
}

TEST(Rates, ThereAreNoneWithoutAnIntervalOrOfAnotherRun) {
  MadeMetrics now = OneModel(5), early = OneModel(4), other = OneModel(4), backwards = OneModel(6);
  other.answer.mutable_families(0)->mutable_metrics(0)->set_value(999);  // the process's start
  for (MadeMetrics* made : {&now, &early, &other, &backwards})
    made->Value("heed_prompt_tokens_total", made == &now ? 8 : 3, {{"model_name", "m"}});
  EXPECT_THAT(Between(&early.answer, now.answer).models.at(0).prompt_tokens, Optional(5.0));
  for (const v1::GetMetricsResponse* before :
       std::vector<const v1::GetMetricsResponse*>{nullptr, &now.answer, &other.answer, &backwards.answer}) {
    const ServerActivity activity = Between(before, now.answer);
    EXPECT_EQ(activity.cpus, std::nullopt);
    EXPECT_EQ(activity.models.at(0).prompt_tokens, std::nullopt);
    EXPECT_EQ(activity.models[0].latency_p50, std::nullopt);
    EXPECT_EQ(activity.uptime_seconds, 5);
  }
}

// A server that lies, or a counter of which only a part is there.
TEST(Rates, AreNeverNegative) {
  MadeMetrics before = OneModel(1), now = OneModel(2);
  const Labels labels = {{"model_name", "m"}};
  before.Value("heed_generation_tokens_total", 9, labels);
  before.Observed("heed_time_to_first_token_seconds", {{1, 5}, {2, 5}, {kInfinity, 0}}, labels);
  now.Observed("heed_time_to_first_token_seconds", {{1, 2}, {2, 6}, {kInfinity, 0}}, labels);
  const ModelActivity model = Between(&before.answer, now.answer).models.at(0);
  EXPECT_THAT(model.generated_tokens, Optional(0.0));
  EXPECT_THAT(model.first_token_p50, Optional(1.5));  // of one observation
}

TEST(Rates, GaugesAreThoseOfNow) {
  MadeMetrics now = OneModel(3);
  now.Model("other", "loading");
  for (const char* name : {"m", "other"}) {
    now.Value("heed_num_requests_running", name[0] == 'm' ? 2 : 0, {{"model_name", name}});
    now.Value("heed_num_requests_waiting", 5, {{"model_name", name}});
    now.Value("heed_state_reserved_bytes", 100, {{"model_name", name}});
    now.Value("heed_state_limit_bytes", 1000, {{"model_name", name}});
  }
  now.Value("heed_build_info", 1, {{"version", "0.2.0"}});
  now.Value("heed_isa_info", 1, {{"cpus", "8"}});
  now.Value("heed_calls_in_flight", 4);
  now.Value("grpc_server_started_total", 30, {{"grpc_method", "Generate"}});
  now.Value("grpc_server_handled_total", 20, {{"grpc_method", "Generate"}, {"grpc_code", "OK"}});
  now.Value("grpc_server_handled_total", 8, {{"grpc_method", "Generate"}, {"grpc_code", "Canceled"}});
  now.Value("grpc_server_started_total", 99, {{"grpc_method", "Classify"}});
  const ServerActivity activity = Between(nullptr, now.answer);
  EXPECT_EQ(activity.version, "0.2.0");
  EXPECT_EQ(activity.available_cpus, 8);
  EXPECT_EQ(activity.calls, 3);  // the fourth asks
  EXPECT_EQ(activity.streams, 2);
  EXPECT_EQ(activity.state_bytes, 200);
  EXPECT_EQ(activity.state_limit_bytes, 2000);
  ASSERT_EQ(activity.models.size(), 2u);
  EXPECT_EQ(activity.models[0].running, 2);
  EXPECT_EQ(activity.models[1].waiting, 5);
  EXPECT_EQ(activity.models[1].state, "loading");
}

TEST(Rates, AServerThatSaysNothingIsNoError) {
  const ServerActivity activity = Between(nullptr, {});
  EXPECT_EQ(activity.version, "");
  EXPECT_EQ(activity.calls, 0);
  EXPECT_THAT(activity.models, ElementsAre());
}

TEST(Quantile, LiesWithinItsBucket) {
  const std::vector<CountedBucket> buckets = {{1, 4}, {2, 0}, {4, 4}, {kInfinity, 2}};
  EXPECT_THAT(Quantile(0.1, buckets), Optional(0.25));
  EXPECT_THAT(Quantile(0.4, buckets), Optional(1.0));
  EXPECT_THAT(Quantile(0.6, buckets), Optional(3.0));
  EXPECT_THAT(Quantile(0.95, buckets), Optional(4.0));  // beyond the last bound nothing is known
  EXPECT_EQ(Quantile(0.5, {{1, 0}, {kInfinity, 0}}), std::nullopt);
  EXPECT_EQ(Quantile(0.5, {}), std::nullopt);
}

}  // namespace
}  // namespace heed::cli
