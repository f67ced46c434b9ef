// How jobs end: in time, cancelled, failed, drained.
#include <atomic>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/error.h"
#include "tests/server/scheduler_world.h"

namespace heed {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

TEST_F(SchedulerTest, ExpiredInTheQueueNeverEntersABatch) {
  Start({.max_batch_jobs = 1});
  auto runs = Submit(1, 2);
  scheduler_->Step();
  auto late = Submit(1, 1, {.deadline = clock_.Now() + milliseconds(10)});
  clock_.Move(milliseconds(10));
  scheduler_->Step();
  EXPECT_EQ(late->code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(late->steps.empty());
  EXPECT_THAT(missed_, ElementsAre("queue"));
}

TEST_F(SchedulerTest, ExpiryInTheQueueIsToldBetweenTheLayersOfARunningPass) {
  Start();
  model_.layers = 3;
  Submit(1);
  std::shared_ptr<FakeJob> late;
  model_.on_layer = [&](int layer) {
    if (layer == 0) late = Submit(1, 1, {.deadline = clock_.Now() + milliseconds(1)});
    if (layer == 1) clock_.Move(milliseconds(1));
    if (layer == 2) {
      EXPECT_EQ(late->code(), StatusCode::kDeadlineExceeded);
    }
  };
  scheduler_->Step();
  EXPECT_TRUE(late->ended.has_value());
}

TEST_F(SchedulerTest, ADeadlineStopsPrefillAndDecoding) {
  Start({.max_batch_tokens = 512});
  const Urgency urgency{.deadline = clock_.Now() + seconds(1)};
  auto prefills = Submit(5000, 1, urgency), decodes = Submit(100, 1000, urgency);
  scheduler_->Step();
  scheduler_->Step();
  clock_.Move(seconds(1));
  const int64_t layers = model_.layers_run;
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(model_.layers_run, layers);
  EXPECT_EQ(prefills->code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(decodes->code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(missed_, UnorderedElementsAre("prefill", "decode"));
  EXPECT_EQ(scheduler_->reserved_bytes(), 0);
}

TEST_F(SchedulerTest, CancelledInTheQueueIsNeverComputed) {
  Start({.max_batch_jobs = 1});
  auto runs = Submit(1, 2), waits = Submit(1, 1);
  scheduler_->Step();
  waits->Cancel();
  StepAll();
  EXPECT_EQ(waits->code(), StatusCode::kCancelled);
  EXPECT_TRUE(waits->steps.empty());
  EXPECT_EQ(runs->code(), StatusCode::kOk);
}

TEST_F(SchedulerTest, CancelledInPrefillLeavesInTheSameStep) {
  Start({.max_batch_tokens = 512});
  model_.layers = 10;
  auto prompt = Submit(5000);
  scheduler_->Step();
  model_.on_layer = [&](int layer) {
    if (layer == 3) prompt->Cancel();
  };
  scheduler_->Step();
  EXPECT_EQ(model_.layers_run, 10 + 4) << "the pass is abandoned when nobody waits for it";
  EXPECT_EQ(prompt->code(), StatusCode::kCancelled);
  EXPECT_EQ(scheduler_->reserved_bytes(), 0);
  EXPECT_EQ(model_.held, 0);
}

TEST_F(SchedulerTest, OneOfABatchIsDroppedAndTheOthersGoOn) {
  Start();
  auto stays = Submit(10, 3), goes = Submit(20, 3);
  model_.on_layer = [&](int layer) {
    if (model_.passes.size() == 2 && layer == 0) goes->Cancel();
  };
  scheduler_->Step();
  scheduler_->Step();
  EXPECT_EQ(goes->code(), StatusCode::kCancelled);
  EXPECT_EQ(goes->made, 1);
  EXPECT_EQ(scheduler_->reserved_bytes(), stays->terms().bytes);
  StepAll();
  EXPECT_EQ(stays->code(), StatusCode::kOk);
  EXPECT_EQ(model_.rows_finished, 10 + 20 + 1 + 1);
}

TEST_F(SchedulerTest, CancelledBetweenTokensNoWorkFollows) {
  Start();
  auto job = Submit(5, 100);
  scheduler_->Step();
  scheduler_->Step();
  job->Cancel();
  const int64_t layers = model_.layers_run;
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(model_.layers_run, layers);
  EXPECT_EQ(job->code(), StatusCode::kCancelled);
  EXPECT_EQ(scheduler_->reserved_bytes(), 0);
  EXPECT_EQ(model_.held, 0);
}

TEST_F(SchedulerTest, AThrowingModelFailsItsBatchAlone) {
  Start({.max_batch_jobs = 2});
  auto first = Submit(1), second = Submit(2), third = Submit(3);
  model_.on_layer = [&](int) {
    if (model_.passes.size() == 1) throw std::runtime_error("/secret/path: no kernel");
  };
  StepAll();
  EXPECT_EQ(first->code(), StatusCode::kInternal);
  EXPECT_EQ(second->code(), StatusCode::kInternal);
  EXPECT_EQ(std::string(first->ended->message()).find("secret"), std::string::npos) << "not for clients";
  EXPECT_THAT(failed_, ElementsAre("/secret/path: no kernel"));
  EXPECT_EQ(third->code(), StatusCode::kOk);
  EXPECT_EQ(scheduler_->reserved_bytes(), 0);
}

TEST_F(SchedulerTest, WithoutMemoryABatchFailsAndTheNextRuns) {
  Start();
  auto first = Submit(1);
  model_.on_layer = [&](int) {
    if (model_.passes.size() == 1) throw std::bad_alloc();
  };
  scheduler_->Step();
  auto second = Submit(1);
  scheduler_->Step();
  EXPECT_EQ(first->code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(second->code(), StatusCode::kOk);
  EXPECT_THAT(failed_, ElementsAre("out of memory"));
}

TEST_F(SchedulerTest, AJobThatThrowsOrFailsEndsAlone) {
  Start();
  auto throws = New(1), fails = New(1), works = New(1);
  throws->on_next = [] { throw std::bad_alloc(); };
  fails->error = absl::InternalError("not a number");
  Submit(throws), Submit(fails), Submit(works);
  StepAll();
  EXPECT_EQ(throws->code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(fails->ended, absl::InternalError("not a number"));
  EXPECT_EQ(works->code(), StatusCode::kOk);
  EXPECT_THAT(model_.passes, ElementsAre(ElementsAre(1, 1)));
}

TEST_F(SchedulerTest, ASlowReaderPausesOnlyItself) {
  Start();
  auto slow = Submit(1, 10), quick = Submit(1, 10);
  scheduler_->Step();
  slow->paused = true;
  for (int i = 0; i < 5; ++i) scheduler_->Step();
  EXPECT_EQ(slow->made, 1);
  EXPECT_EQ(quick->made, 6);
  slow->paused = false;
  StepAll();
  EXPECT_EQ(slow->made, 10);
}

TEST_F(SchedulerTest, AReaderStalledForTooLongIsCancelled) {
  Start();
  auto job = Submit(1, 10);
  scheduler_->Step();
  job->paused = true;
  EXPECT_FALSE(scheduler_->Step());
  clock_.Move(seconds(29));
  job->paused = false;  // a sign of life
  EXPECT_TRUE(scheduler_->Step());
  job->paused = true;
  EXPECT_FALSE(scheduler_->Step());
  clock_.Move(milliseconds(29999));
  EXPECT_FALSE(scheduler_->Step());
  clock_.Move(milliseconds(1));
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(job->code(), StatusCode::kCancelled);
  EXPECT_EQ(scheduler_->reserved_bytes(), 0);
}

TEST_F(SchedulerTest, DrainFinishesTheAdmittedAndRefusesTheRest) {
  Start({.max_batch_jobs = 1});
  auto runs = Submit(1, 3), waits = Submit(1, 3);
  scheduler_->Step();
  scheduler_->Drain(clock_.Now() + seconds(10));
  EXPECT_EQ(ReasonOf(scheduler_->Submit(New(1))), ErrorReason::kServerStopping);
  StepAll();
  EXPECT_EQ(runs->code(), StatusCode::kOk);
  EXPECT_EQ(waits->code(), StatusCode::kOk);
}

TEST_F(SchedulerTest, WhenTheGracePeriodIsOverTheRestIsTold) {
  Start({.max_batch_jobs = 1});
  auto runs = Submit(1, 1000), waits = Submit(1, 3);
  scheduler_->Step();
  scheduler_->Drain(clock_.Now() + seconds(10));
  scheduler_->Drain(clock_.Now() + seconds(5));
  clock_.Move(seconds(5));
  StepAll();
  EXPECT_EQ(runs->code(), StatusCode::kUnavailable);
  EXPECT_EQ(waits->code(), StatusCode::kUnavailable);
}

TEST_F(SchedulerTest, ItsEndIsToldToAll) {
  Start();
  auto runs = Submit(1, 1000);
  scheduler_->Step();
  auto waits = Submit(1, 1);
  scheduler_.reset();
  EXPECT_EQ(runs->code(), StatusCode::kUnavailable);
  EXPECT_EQ(waits->code(), StatusCode::kUnavailable);
  runs->Cancel();  // harmless by now
}

TEST_F(SchedulerTest, AWokenJobGoesOnAndACancelledOneEndsThoughItIsPaused) {
  Start({}, /*own_thread=*/true);
  auto woken = New(1, 2), cancelled = New(1, 2);
  std::promise<void> both;
  std::atomic<int> left{2};
  for (const auto& job : {woken, cancelled}) {
    job->paused = true;
    job->on_end = [&] {
      if (--left == 0) both.set_value();
    };
    Submit(job);
  }
  woken->paused = false;
  woken->Wake();
  cancelled->Cancel();
  both.get_future().wait();
  scheduler_.reset();
  EXPECT_EQ(woken->code(), StatusCode::kOk);
  EXPECT_EQ(cancelled->code(), StatusCode::kCancelled);
}

TEST(SchedulerInRealTime, ADeadlineWakesItThoughNothingElseHappens) {
  FakeModel model;
  Threads threads(1);
  Turns turns(&threads);
  Scheduler scheduler(&model, &turns, &Clock::Real(), {});
  const Urgency urgency{.deadline = Clock::Real().Now() + milliseconds(5)};
  auto job = std::make_shared<FakeJob>(&model, JobTerms{.urgency = urgency, .rows = 1, .bytes = 8}, 2);
  job->paused = true;
  std::promise<Time> ended;
  job->on_end = [&] { ended.set_value(Clock::Real().Now()); };
  ASSERT_TRUE(scheduler.Submit(job).ok());
  EXPECT_GE(ended.get_future().get(), urgency.deadline);
  EXPECT_EQ(job->code(), StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace heed
