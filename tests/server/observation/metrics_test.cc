// Metrics without a server: what counts them, and how they are spelt.
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "server/error.h"
#include "server/methods.h"
#include "server/observation/codes.h"
#include "server/observation/gauges.h"
#include "server/observation/metrics.h"
#include "server/workers.h"
#include "tests/server/observation/exposition.h"

namespace heed {
namespace {

TEST(Metrics, TasksThatThrowAreCounted) {
  class Metrics metrics(kMethods, 0);
  Workers workers(1, [failed = metrics.Events().failed](std::string_view what) { failed(what, ""); });
  workers.Run([] { throw std::runtime_error("no memory"); });
  auto count = [&] {
    const std::string text = prometheus::TextSerializer().Serialize(metrics.families()->Collect());
    return MetricSum(text, "heed_task_failures_total");
  };
  while (count() == 0) std::this_thread::yield();
  EXPECT_EQ(count(), 1);
}

// What a server does not keep is not exposed as 0.
TEST(Metrics, GaugesAreOfTheSourcesGiven) {
  const Registry none({}, nullptr, &Clock::Real());
  auto families = [&](GaugeSources sources) {
    return prometheus::TextSerializer().Serialize(Gauges(&none, std::move(sources)).Collect());
  };
  const std::string all = families({.calls_in_flight = [] { return 3; },
                                    .listener_up = [] { return true; },
                                    .answer_bytes_reserved = [] { return 1 << 20; },
                                    .answer_bytes_limit = [] { return 1 << 21; },
                                    .certificate_expiry = [] { return 1'800'000'000; },
                                    .spans = [] { return SpanCounts{1, 2, 3}; }});
  EXPECT_EQ(MetricSum(all, "heed_calls_in_flight"), 3);
  EXPECT_EQ(MetricSum(all, "heed_listener_up"), 1);
  EXPECT_EQ(MetricSum(all, "heed_answer_bytes_reserved"), 1 << 20);
  EXPECT_EQ(MetricSum(all, "heed_answer_limit_bytes"), 1 << 21);
  EXPECT_EQ(MetricSum(all, "heed_tls_certificate_expiry_timestamp_seconds"), 1'800'000'000);
  const std::map<std::string, int> outcomes = {{"exported", 1}, {"failed", 2}, {"dropped", 3}};
  for (const auto& [outcome, spans] : outcomes)
    EXPECT_EQ(MetricSum(all, "heed_trace_spans_total", {Cat("outcome=\"", outcome, "\"")}), spans);
  for (const char* family :
       {"heed_listener_up", "heed_tls_certificate_expiry_timestamp_seconds", "heed_trace_spans_total"})
    EXPECT_FALSE(Families(families({})).contains(family)) << family;
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

// What takes 5 ms and what takes 5 minutes are both known within a factor of 2.5.
TEST(Metrics, BucketsSuitMicrosecondsAndMinutes) {
  const std::vector<double> buckets = DurationBuckets();
  EXPECT_EQ(buckets.front(), 100e-6);
  EXPECT_EQ(buckets.back(), 600);
  for (size_t i = 1; i < buckets.size(); ++i)
    EXPECT_LE(buckets[i] / buckets[i - 1], 2.5 + 1e-9) << buckets[i];
}

}  // namespace
}  // namespace heed
