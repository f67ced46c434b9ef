// What the scheduler puts into a pass.
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/scheduler_world.h"

namespace heed {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

TEST_F(SchedulerTest, ALoneJobDoesNotWait) {
  Start();
  auto job = Submit(7);
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(job->code(), StatusCode::kOk);
  EXPECT_EQ(job->times().started, job->times().submitted);
  EXPECT_FALSE(scheduler_->Step());
}

TEST_F(SchedulerTest, ALoneJobWaitsForCompanyNoLongerThanItIsTold) {
  Start({.max_wait = milliseconds(2)});
  auto first = Submit(7);
  EXPECT_FALSE(scheduler_->Step());
  clock_.Move(milliseconds(1));
  auto second = Submit(8);
  EXPECT_FALSE(scheduler_->Step());
  clock_.Move(milliseconds(1));
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_THAT(model_.passes, ElementsAre(ElementsAre(7, 8)));
}

TEST_F(SchedulerTest, AFullBatchWaitsForNobody) {
  Start({.max_batch_tokens = 512, .max_wait = milliseconds(2)});
  Submit(500);
  EXPECT_FALSE(scheduler_->Step());
  Submit(12);
  EXPECT_TRUE(scheduler_->Step());
}

TEST_F(SchedulerTest, ArrivalsDuringAStepShareTheNext) {
  Start();
  Submit(1);
  model_.on_layer = [&](int layer) {
    if (model_.passes.size() == 1 && layer == 0) Submit(2), Submit(3), Submit(4);
  };
  StepAll();
  EXPECT_THAT(model_.passes, ElementsAre(ElementsAre(1), ElementsAre(2, 3, 4)));
}

TEST_F(SchedulerTest, ShortJobsLeaveAndLongOnesStay) {
  Start();
  auto one = Submit(1, 1), three = Submit(1, 3), five = Submit(1, 5);
  scheduler_->Step();
  EXPECT_TRUE(one->ended.has_value());
  StepAll();
  std::vector<size_t> works;
  for (const auto& pass : model_.passes) works.push_back(pass.size());
  EXPECT_THAT(works, ElementsAre(3, 2, 2, 1, 1));
  EXPECT_EQ(five->made, 5);
}

TEST_F(SchedulerTest, WhileALongPromptIsCutEveryDecoderGetsOneTokenAStep) {
  Start();
  std::vector<std::shared_ptr<FakeJob>> decoders;
  for (int i = 0; i < 8; ++i) decoders.push_back(Submit(1, 100));
  scheduler_->Step();
  auto prompt = Submit(4000);
  for (int step = 1; !prompt->ended; ++step) {
    scheduler_->Step();
    for (const auto& decoder : decoders) EXPECT_EQ(decoder->made, step + 1);
    EXPECT_LE(steps_.back().prompt_rows, SchedulerOptions().max_prefill_tokens);
  }
  EXPECT_THAT(prompt->steps, ElementsAre(512, 512, 512, 512, 512, 512, 512, 416));
}

TEST_F(SchedulerTest, APromptIsCutAtTheGridByTheTokenBudget) {
  Start({.max_batch_tokens = 1000});
  auto prompt = Submit(2000);
  StepAll();
  EXPECT_THAT(prompt->steps, ElementsAre(896, 896, 208));
}

TEST_F(SchedulerTest, ShortPromptsPassTheOneThatIsCut) {
  Start({.max_batch_tokens = 1024});
  auto longest = Submit(100 * 1024);
  scheduler_->Step();
  auto next = Submit(2000), shorter = Submit(100), fitting = Submit(300), too_long = Submit(200);
  scheduler_->Step();
  EXPECT_THAT(longest->steps, ElementsAre(1024, 512)) << "at least half is its own";
  EXPECT_TRUE(next->steps.empty()) << "one is cut at a time";
  EXPECT_TRUE(shorter->ended && fitting->ended);
  EXPECT_TRUE(too_long->steps.empty());
  scheduler_->Step();
  EXPECT_TRUE(too_long->ended.has_value());
}

TEST_F(SchedulerTest, AWholeInputLongerThanTheBudgetGoesBesideDecodingRowsOnly) {
  Start({.max_batch_tokens = 512});
  auto decoder = Submit(1, 10);
  scheduler_->Step();
  auto whole = Submit(NewWhole(5000)), other = Submit(NewWhole(100));
  scheduler_->Step();
  EXPECT_THAT(model_.passes.back(), ElementsAre(1, 5000));
  scheduler_->Step();
  EXPECT_THAT(model_.passes.back(), ElementsAre(1, 100));
}

TEST_F(SchedulerTest, WholeInputsFillTheBudget) {
  Start({.max_batch_tokens = 1000});
  for (int64_t rows : {400, 500, 300, 90, 1000}) Submit(NewWhole(rows));
  StepAll();
  EXPECT_THAT(model_.passes, ElementsAre(ElementsAre(400, 500, 90), ElementsAre(300), ElementsAre(1000)));
}

TEST_F(SchedulerTest, DecodersLeftOutOfAStepGoFirstInTheNext) {
  Start({.max_batch_tokens = 512, .max_batch_jobs = 400, .max_queued_jobs = 400});
  std::vector<std::shared_ptr<FakeJob>> decoders;
  for (int i = 0; i < 400; ++i) decoders.push_back(Submit(1, 1000));
  for (int step = 0; step < 200; ++step) scheduler_->Step();  // 256 of 400 a step
  for (const auto& decoder : decoders) EXPECT_NEAR(decoder->made, 200 * 256 / 400, 2);
}

TEST_F(SchedulerTest, BudgetsHoldOver10000RandomJobs) {
  const SchedulerOptions options{.max_batch_tokens = 1024, .max_batch_jobs = 40, .state_bytes = 50000};
  Start(options);
  std::mt19937 random(1);
  auto upto = [&](int64_t n) { return static_cast<int64_t>(random() % n) + 1; };
  int submitted = 0;
  std::vector<std::shared_ptr<FakeJob>> jobs;
  model_.on_layer = [&](int) {
    EXPECT_LE(model_.held, scheduler_->reserved_bytes());
    EXPECT_LE(scheduler_->reserved_bytes(), options.state_bytes);
  };
  while (submitted < 10000 || scheduler_->queued() + scheduler_->running() > 0) {
    for (int64_t n = upto(8); n > 0 && submitted < 10000 && scheduler_->queued() < 200; --n, ++submitted) {
      jobs.push_back(Submit(upto(10) == 1 ? upto(3000) : upto(100), upto(20)));
    }
    scheduler_->Step();
    EXPECT_LE(steps_.back().rows, options.max_batch_tokens);
    EXPECT_LE(scheduler_->running(), options.max_batch_jobs);
  }
  for (const auto& job : jobs) EXPECT_EQ(job->code(), StatusCode::kOk);
  EXPECT_EQ(scheduler_->reserved_bytes(), 0);
  EXPECT_EQ(model_.held, 0);
}

// Every event is drawn: arrivals of every kind, cancellations, pauses, throwing passes, time going by.
TEST_F(SchedulerTest, NothingIsLostOver100000RandomEvents) {
  Start({.max_batch_tokens = 1024,
         .max_batch_jobs = 20,
         .max_queued_jobs = 30,
         .state_bytes = 30000,
         .aging = milliseconds(50)});
  std::mt19937 random(2);
  auto chance = [&](int one_in) { return random() % one_in == 0; };
  model_.on_layer = [&](int) {
    if (chance(500)) throw std::runtime_error("bad luck");
    clock_.Move(milliseconds(1));
  };
  std::vector<std::shared_ptr<FakeJob>> living;
  std::map<StatusCode, int> ends;
  int admitted = 0, refused = 0;
  for (int event = 0; event < 100000; ++event) {
    if (chance(2)) {
      const Urgency urgency{.priority = static_cast<int>(random() % 5),
                            .deadline = chance(3) ? clock_.Now() + milliseconds(random() % 100) : kNever};
      auto job = New(random() % (chance(5) ? 3000 : 50) + 1, random() % 10 + 1, urgency);
      if (scheduler_->Submit(job).ok()) {
        ++admitted;
        living.push_back(job);
      } else {
        ++refused;
      }
    } else if (!living.empty() && chance(4)) {
      living[random() % living.size()]->Cancel();
    } else if (!living.empty() && chance(4)) {
      FakeJob& job = *living[random() % living.size()];
      job.paused = !job.paused;
      job.Wake();
    } else {
      scheduler_->Step();
    }
    std::erase_if(living, [&](const auto& job) {
      if (job->ended) ++ends[job->code()];
      return job->ended.has_value();
    });
  }
  for (const auto& job : living) job->paused = false;
  StepAll();
  for (const auto& job : living) ++ends[job->code()];
  int ended = 0;
  for (const auto& [code, count] : ends) ended += count;
  EXPECT_EQ(admitted, ended);
  EXPECT_THAT(ends, testing::SizeIs(4));
  EXPECT_TRUE(ends.contains(StatusCode::kOk) && ends.contains(StatusCode::kInternal) &&
              ends.contains(StatusCode::kCancelled) && ends.contains(StatusCode::kDeadlineExceeded));
  EXPECT_GT(refused, 0);
  EXPECT_EQ(scheduler_->reserved_bytes(), 0);
  EXPECT_EQ(scheduler_->queued() + scheduler_->running(), 0);
  EXPECT_EQ(model_.held, 0);
}

// With a thread of its own.
TEST_F(SchedulerTest, ItsThreadServesWhatManyThreadsSubmit) {
  Start({.max_queued_jobs = 10000}, /*own_thread=*/true);
  std::atomic<int> ok{0}, cancelled{0};
  std::vector<std::vector<std::shared_ptr<FakeJob>>> jobs(4);
  {
    std::vector<std::jthread> callers;
    for (auto& mine : jobs) {
      callers.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          auto job = New(i % 50 + 1, i % 7 + 1);
          job->on_end = [&, job = job.get()] { ++(job->ended->ok() ? ok : cancelled); };
          mine.push_back(Submit(job));
          if (i % 5 == 0) mine[mine.size() / 2]->Cancel();
        }
      });
    }
  }
  scheduler_->Drain(kNever);
  EXPECT_EQ(ok + cancelled, 2000);
  EXPECT_GE(ok, 4);
  EXPECT_EQ(model_.held, 0);
}

}  // namespace
}  // namespace heed
