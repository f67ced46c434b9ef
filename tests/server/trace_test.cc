// What a call that is traced remembers of itself.
#include "server/trace.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/error.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

// The i-th second of something.
TraceStep Second(TraceStep::Kind kind, int i) {
  return {.kind = kind, .begin = Time(seconds(i)), .end = Time(seconds(i + 1))};
}

TEST(Trace, TellsWhatTheCallWasAndItsStepsInOrder) {
  Trace trace({.service = "heed.v1.Inference", .method = "Classify", .arrival = Time(seconds(1))});
  trace.Add(Second(TraceStep::kTokenize, 1));
  trace.Add(Second(TraceStep::kPass, 2));
  const CallUse use{.model = "polarity", .tokens_read = 7, .tokens_made = 5};
  const TracedCall call = trace.End(seconds(3), absl::OkStatus(), "id", use);
  EXPECT_EQ(call.model, "polarity");
  EXPECT_EQ(call.method, "Classify");
  EXPECT_EQ(call.request_id, "id");
  EXPECT_EQ(call.code, absl::StatusCode::kOk);
  EXPECT_EQ(call.reason, "");
  EXPECT_EQ(call.tokens_read, 7);
  EXPECT_EQ(call.tokens_made, 5);
  EXPECT_EQ(call.ended, Time(seconds(4)));
  ASSERT_EQ(call.spans(), 3);
  EXPECT_EQ(call.steps[0].kind, TraceStep::kTokenize);
  EXPECT_EQ(call.steps[1].begin, Time(seconds(2)));
}

TEST(Trace, TellsWhyThereWasNoAnswerInOurOwnWord) {
  Trace trace({});
  const TracedCall call = trace.End({}, Error(ErrorReason::kQueueFull, "a secret text"), "id", {});
  EXPECT_EQ(call.code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(call.reason, "QUEUE_FULL");
}

TEST(Trace, OfManyStepsOfAKindTheLastStandsForTheRest) {
  Trace trace({});
  trace.Add(Second(TraceStep::kQueue, 0));
  for (int i = 0; i < 1000; ++i) {
    TraceStep step = Second(TraceStep::kPass, i);
    step.input = i < 900 ? 0 : 1;
    step.tokens = 1;
    step.batch_tokens = 3;
    step.batch_inputs = 2;
    step.failed = i == 999;
    trace.Add(step);
  }
  trace.Add(Second(TraceStep::kWrite, 1000));
  const TracedCall call = trace.End({}, absl::OkStatus(), "id", {});
  ASSERT_EQ(call.steps.size(), 2u + Trace::kMostSteps);
  EXPECT_EQ(call.steps.back().kind, TraceStep::kWrite);
  const TraceStep &before = call.steps[Trace::kMostSteps - 1], &rest = call.steps[Trace::kMostSteps];
  EXPECT_EQ(before.merged, 1);
  EXPECT_EQ(before.input, 0);
  EXPECT_FALSE(before.failed);
  EXPECT_EQ(rest.merged, 1000 - (Trace::kMostSteps - 1));
  EXPECT_EQ(rest.begin, before.end);
  EXPECT_EQ(rest.end, Time(seconds(1000)));
  EXPECT_EQ(rest.tokens, rest.merged);
  EXPECT_EQ(rest.batch_tokens, 3 * rest.merged);
  EXPECT_EQ(rest.batch_inputs, 2 * rest.merged);
  EXPECT_EQ(rest.input, -1);
  EXPECT_TRUE(rest.failed);
}

TEST(Trace, IsOverAtItsEndWhoeverGoesOn) {
  Trace trace({});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) trace.Add(Second(static_cast<TraceStep::Kind>(t), i));
    });
  }
  const TracedCall call = trace.End({}, absl::OkStatus(), "id", {});
  threads.clear();
  trace.Add(Second(TraceStep::kPass, 0));
  EXPECT_LE(call.steps.size(), static_cast<size_t>(TraceStep::kKinds * Trace::kMostSteps));
  EXPECT_EQ(trace.End({}, absl::OkStatus(), "id", {}).spans(), 1);
}

}  // namespace
}  // namespace heed
