// Whom the scheduler lets in, in which order, and whom it refuses.
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/error.h"
#include "tests/server/scheduler_world.h"

namespace heed {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(SchedulerTest, WhatCanNeverFitIsRefusedAtOnce) {
  Start({.state_bytes = 800});
  const absl::Status status = scheduler_->Submit(New(100, 1));
  EXPECT_EQ(ReasonOf(status), ErrorReason::kStateTooLarge);
  EXPECT_THAT(std::string(status.message()), testing::AllOf(HasSubstr("808"), HasSubstr("800")));
  auto fits = Submit(99, 1);
  StepAll();
  EXPECT_EQ(fits->code(), StatusCode::kOk);
}

TEST_F(SchedulerTest, WhoseWorkspaceCanNeverFitIsRefusedAtOnceWithBothNumbers) {
  model_.workspace_row_bytes = 20;
  Start({.max_batch_tokens = 512, .state_bytes = 20000});
  const absl::Status status = scheduler_->Submit(NewWhole(1000));
  EXPECT_EQ(ReasonOf(status), ErrorReason::kStateTooLarge);
  EXPECT_THAT(std::string(status.message()), testing::AllOf(HasSubstr("28008"), HasSubstr("20000")));
  auto cut = Submit(1000);  // of which a pass has 512 rows at most: 8008 bytes of state and 10240
  auto whole = Submit(NewWhole(700));
  StepAll();
  EXPECT_EQ(cut->code(), StatusCode::kOk);
  EXPECT_EQ(whole->code(), StatusCode::kOk);
}

TEST_F(SchedulerTest, APassIsNotGivenRowsWhoseWorkspaceDoesNotFitBesideTheStates) {
  model_.workspace_row_bytes = 20;
  Start({.state_bytes = 10000});
  for (int i = 0; i < 4; ++i) Submit(NewWhole(150));  // 1208 bytes of state each, 3000 of workspace
  StepAll();
  EXPECT_THAT(model_.passes, ElementsAre(ElementsAre(150, 150), ElementsAre(150, 150)));
}

// Of each input a model may hold rows that are its own: latents.
TEST_F(SchedulerTest, OfWholeInputsAPassesWorkspaceIsOfAsManyAsThereAre) {
  model_.workspace_work_bytes = 3000;
  Start({.state_bytes = 10000});
  for (int i = 0; i < 4; ++i) Submit(NewWhole(150));  // 1208 bytes of state each
  StepAll();
  EXPECT_THAT(model_.passes, ElementsAre(ElementsAre(150, 150), ElementsAre(150, 150)));
  EXPECT_EQ(ReasonOf(scheduler_->Submit(NewWhole(900))), ErrorReason::kStateTooLarge);
}

TEST_F(SchedulerTest, OfInputsThatMayBeCutAPassesWorkspaceIsOfAsManySequencesAsTheyHave) {
  model_.workspace_work_bytes = 3000;
  Start({.state_bytes = 10000});
  auto one = Submit(150, 3), other = Submit(150, 3);
  StepAll();
  EXPECT_EQ(one->code(), StatusCode::kOk);
  EXPECT_EQ(other->code(), StatusCode::kOk);
  JobTerms samples = Terms(1, 1, {});
  samples.works = 4;
  EXPECT_EQ(ReasonOf(scheduler_->Submit(std::make_shared<FakeJob>(&model_, samples, 1))),
            ErrorReason::kStateTooLarge)
      << "where each decodes by itself";
}

TEST_F(SchedulerTest, BytesAreWaitedForAndNoSmallerJobPassesMeanwhile) {
  Start({.state_bytes = 8000});
  auto holder = Submit(400, 100);
  scheduler_->Step();
  auto large = Submit(700, 1), small = Submit(1, 1);
  while (!holder->ended) {
    EXPECT_TRUE(large->steps.empty() && small->steps.empty());
    scheduler_->Step();
  }
  scheduler_->Step();
  EXPECT_TRUE(large->ended && small->ended);
}

// The order in which jobs are admitted, one at a time.
TEST_F(SchedulerTest, PriorityThenTheEarliestDeadlineThenArrival) {
  Start({.max_batch_jobs = 1});
  const Time now = clock_.Now();
  std::vector<std::string> order;
  std::vector<std::shared_ptr<FakeJob>> jobs;
  auto submit = [&](std::string name, Urgency urgency) {
    auto job = New(1, 1, urgency);
    job->on_next = [&order, name] { order.push_back(name); };
    jobs.push_back(Submit(job));
  };
  submit("no deadline", {});
  submit("no deadline, later", {});
  submit("9 s", {.deadline = now + seconds(9)});
  submit("3 s", {.deadline = now + seconds(3)});
  submit("urgent", {.priority = 1});
  submit("urgent, 7 s", {.priority = 1, .deadline = now + seconds(7)});
  submit("idle", {.priority = -1, .deadline = now + seconds(1)});
  StepAll();
  EXPECT_THAT(
      order, ElementsAre("urgent, 7 s", "urgent", "3 s", "9 s", "no deadline", "no deadline, later", "idle"));
}

TEST_F(SchedulerTest, NobodyStarves) {
  Start({.max_batch_jobs = 1, .aging = seconds(5)});
  auto modest = Submit(1, 1, {.priority = -2});
  Time passed_by{};
  while (!modest->ended) {
    // A stream of more urgent jobs that takes all there is.
    auto pushy = Submit(1, 1, {.priority = 1, .deadline = clock_.Now() + seconds(1)});
    scheduler_->Step();
    if (pushy->ended) passed_by = pushy->times().submitted;
    clock_.Move(milliseconds(100));
    ASSERT_LT(clock_.Now(), Time(seconds(60)));
  }
  // By those that came within (1 - -2 + 1) * 5 s, as scheduler.h says.
  EXPECT_LE(passed_by, Time(seconds(20)));
  EXPECT_GE(passed_by, Time(seconds(14)));
}

TEST_F(SchedulerTest, AFullQueueRefusesWithAHint) {
  Start({.max_batch_jobs = 1, .max_queued_jobs = 4});
  model_.on_layer = [&](int) { clock_.Move(milliseconds(5)); };  // 10 ms a job
  Submit(1);
  StepAll();
  for (int i = 0; i < 4; ++i) Submit(1);
  auto refused = New(1);
  const absl::Status status = scheduler_->Submit(refused);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(refused->ended.has_value()) << "it is the caller who answers";
  EXPECT_EQ(scheduler_->queued(), 4);
  EXPECT_NEAR(std::chrono::duration<double>(scheduler_->expected_wait()).count(), 0.040, 0.001);
  scheduler_->Step();
  EXPECT_TRUE(scheduler_->Submit(refused).ok());
  StepAll();
}

TEST_F(SchedulerTest, AJobThatWasRefusedMayComeAgain) {
  Start({.max_queued_jobs = 1});
  EXPECT_FALSE(scheduler_->full());
  Submit(1);
  EXPECT_TRUE(scheduler_->full());
  auto again = New(1);
  EXPECT_EQ(ReasonOf(scheduler_->Submit(again)), ErrorReason::kQueueFull);
  scheduler_->Step();
  EXPECT_FALSE(scheduler_->full());
  Submit(again);
  StepAll();
  EXPECT_EQ(again->code(), StatusCode::kOk);
}

// Of two models, one settles its batch until the other has had a turn.
TEST_F(SchedulerTest, ASeatIsNotKeptWhileABatchSettles) {
  Start({}, /*own_thread=*/true);
  FakeModel other;
  std::promise<void> had_turn;
  other.on_layer = [&, told = false](int) mutable {
    if (!std::exchange(told, true)) had_turn.set_value();
  };
  Scheduler others(&other, &turns_, &clock_, {});
  auto settles = New(1), waits = std::make_shared<FakeJob>(&other, Terms(1, 1, {}), 1);
  settles->on_take = [&] {
    EXPECT_TRUE(others.Submit(waits).ok());
    clock_.Move(seconds(1));
    had_turn.get_future().wait();
  };
  Submit(settles);
  scheduler_->Drain(kNever);
  others.Drain(kNever);
  EXPECT_EQ(settles->code(), StatusCode::kOk);
  EXPECT_EQ(waits->code(), StatusCode::kOk);
}

}  // namespace
}  // namespace heed
