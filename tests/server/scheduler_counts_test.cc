// What the scheduler tells of its jobs: counts, times, traces.
#include <memory>
#include <stdexcept>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/trace.h"
#include "tests/server/scheduler_world.h"

namespace heed {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

TEST_F(SchedulerTest, PromptsAreCountedAsTheyAreRead) {
  Start({.max_batch_tokens = 512});
  Submit(1000, 3);
  auto goes = Submit(100, 3);
  model_.on_layer = [&](int layer) {
    if (layer == 0) goes->Cancel();
  };
  StepAll();
  EXPECT_THAT(rows_read_, ElementsAre(512, 488)) << "nothing of what was cancelled, nothing of decoding";
}

TEST_F(SchedulerTest, ThePromptOfAPassThatFailedWasNotRead) {
  Start();
  Submit(100);
  model_.on_layer = [&](int) { throw std::runtime_error("no"); };
  StepAll();
  EXPECT_THAT(rows_read_, ElementsAre());
}

TEST_F(SchedulerTest, TokensAreCountedAsTheyAreMadeAlsoOfAStreamThatIsCancelled) {
  Start({.max_batch_tokens = 512});
  model_.on_layer = [&](int) { clock_.Move(milliseconds(5)); };  // 10 ms a step
  auto job = Submit(1000, 5000);
  clock_.Move(milliseconds(7));
  for (int i = 0; i < 4; ++i) scheduler_->Step();
  clock_.Move(milliseconds(100));  // between two steps
  scheduler_->Step();
  EXPECT_THAT(made_, ElementsAre(Made{1, milliseconds(27), true}, Made{1, milliseconds(10), false},
                                 Made{1, milliseconds(10), false}, Made{1, milliseconds(110), false}));
  for (int i = 0; i < 2000; ++i) scheduler_->Step();
  job->Cancel();
  StepAll();
  EXPECT_EQ(job->code(), StatusCode::kCancelled);
  EXPECT_EQ(std::ssize(made_), job->made);
  EXPECT_GT(job->made, 2000);
}

TEST_F(SchedulerTest, AJobWhoseEndThrowsEndsAndIsCountedAndTheOthersGoOn) {
  Start();
  auto throws = New(1), works = New(1, 3);
  throws->on_end = [] { throw std::runtime_error("no room for its answer"); };
  Submit(throws), Submit(works);
  StepAll();
  EXPECT_TRUE(throws->ended.has_value());
  EXPECT_EQ(works->code(), StatusCode::kOk);
  EXPECT_THAT(failed_, ElementsAre("no room for its answer"));
  EXPECT_EQ(scheduler_->reserved_bytes(), 0);
  EXPECT_EQ(scheduler_->running(), 0);
}

TEST_F(SchedulerTest, JobsKnowWhenWhatHappened) {
  Start({.max_batch_tokens = 512});
  model_.on_layer = [&](int) { clock_.Move(milliseconds(5)); };
  auto job = Submit(1000, 3);
  clock_.Move(milliseconds(7));
  StepAll();
  const Usage usage = job->Spent(1000, 3);
  EXPECT_EQ(usage.queued, milliseconds(7));
  EXPECT_EQ(usage.prefill, milliseconds(20));
  EXPECT_EQ(usage.decode, milliseconds(20));
}

TEST_F(SchedulerTest, ATraceIsToldOfTheWaitAndOfEachPassWithItsCompany) {
  Start();
  model_.on_layer = [this](int) { clock_.Move(seconds(1)); };
  auto job = New(3, 2);
  const auto trace = std::make_shared<Trace>(TracedCall{});
  job->TraceTo(trace, 7);
  Submit(job);
  Submit(4, 1);
  clock_.Move(seconds(2));
  StepAll();
  ASSERT_EQ(job->code(), StatusCode::kOk);
  const auto steps = trace->End({}, absl::OkStatus(), "id", {}).steps;
  ASSERT_EQ(steps.size(), 3u);
  for (const TraceStep& step : steps) EXPECT_EQ(step.input, 7);
  EXPECT_EQ(steps[0].kind, TraceStep::kQueue);
  EXPECT_EQ(steps[0].begin, Time());
  EXPECT_EQ(steps[0].end, Time(seconds(2)));
  EXPECT_FALSE(steps[0].failed);
  for (int i : {1, 2}) {
    EXPECT_EQ(steps[i].kind, TraceStep::kPass);
    EXPECT_EQ(steps[i].begin, Time(seconds(2 * i)));
    EXPECT_EQ(steps[i].end, Time(seconds(2 * i + 2)));
    EXPECT_EQ(steps[i].prompt, i == 1);
    EXPECT_FALSE(steps[i].failed);
  }
  EXPECT_THAT(std::vector({steps[1].tokens, steps[1].batch_tokens, steps[1].batch_inputs}),
              ElementsAre(3, 7, 2));
  EXPECT_THAT(std::vector({steps[2].tokens, steps[2].batch_tokens, steps[2].batch_inputs}),
              ElementsAre(1, 1, 1));
}

TEST_F(SchedulerTest, ATraceIsToldOfWaitsAndPassesThatCameToNothing) {
  Start();
  const auto trace = std::make_shared<Trace>(TracedCall{});
  auto late = New(1, 1, {.deadline = Time(seconds(1))}), broken = New(1);
  late->TraceTo(trace, 0);
  broken->TraceTo(trace, 1);
  Submit(late);
  clock_.Move(seconds(5));
  StepAll();
  EXPECT_EQ(late->code(), StatusCode::kDeadlineExceeded);
  model_.on_layer = [](int) { throw std::runtime_error("broken"); };
  Submit(broken);
  StepAll();
  EXPECT_EQ(broken->code(), StatusCode::kInternal);
  const auto steps = trace->End({}, absl::OkStatus(), "id", {}).steps;
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].kind, TraceStep::kQueue);
  EXPECT_EQ(steps[0].end, Time(seconds(5)));
  EXPECT_TRUE(steps[0].failed);
  EXPECT_FALSE(steps[1].failed);
  EXPECT_EQ(steps[2].kind, TraceStep::kPass);
  EXPECT_TRUE(steps[2].failed);
}

}  // namespace
}  // namespace heed
