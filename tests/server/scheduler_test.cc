#include "server/scheduler.h"

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/error.h"
#include "server/trace.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

using absl::StatusCode;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// Reads a prompt, then makes `tokens` tokens, the first of them in the prompt's last pass.
class FakeJob : public Job {
 public:
  FakeJob(const FakeModel* model, JobTerms terms, int64_t tokens)
      : Job(terms), model_(model), prompt_left_(terms.rows), tokens_left_(tokens) {}

  int64_t Rows() const override { return prompt_left_ > 0 ? prompt_left_ : paused ? 0 : 1; }

  void Next(int64_t rows, std::vector<Work>* batch) override {
    if (on_next) on_next();
    if (!sequence_) sequence_ = model_->Start();
    const bool last = prompt_left_ <= rows;
    const int64_t n = prompt_left_ == 0 ? 1 : last ? prompt_left_ : rows / kGrid * kGrid;
    prompt_left_ = std::max<int64_t>(prompt_left_ - n, 0);
    Work work{.sequence = sequence_.get(), .tokens = std::vector<int32_t>(n), .more = !last};
    if (last) work.wanted = {static_cast<int32_t>(n - 1)};
    work.read = [this](int32_t, std::span<const float>) { ++made; };
    batch->push_back(std::move(work));
    steps.push_back(n);
  }

  absl::StatusOr<bool> Take() override {
    if (on_take) on_take();
    if (!error.ok()) return error;
    CountMade(made - std::exchange(told_, made));
    return made == tokens_left_;
  }

  void End(const absl::Status& status) override {
    EXPECT_FALSE(ended.has_value());
    ended = status;
    sequence_.reset();
    if (on_end) on_end();
  }

  StatusCode code() const { return ended.value_or(absl::UnknownError("not ended")).code(); }

  std::atomic<bool> paused{false};
  absl::Status error;  // what Take() is to return
  std::function<void()> on_next;
  std::function<void()> on_take;
  std::function<void()> on_end;
  std::vector<int64_t> steps;  // rows of each
  int64_t made = 0;            // tokens
  std::optional<absl::Status> ended;

 private:
  const FakeModel* model_;
  std::unique_ptr<Sequence> sequence_;
  int64_t prompt_left_;
  int64_t tokens_left_;
  int64_t told_ = 0;  // tokens that were counted
};

class SchedulerTest : public testing::Test {
 protected:
  void Start(SchedulerOptions options = {}, bool own_thread = false) {
    events_.step = [this](int64_t jobs, int64_t rows, int64_t prompt_rows) {
      steps_.push_back({rows, prompt_rows});
    };
    events_.read = [this](int64_t rows) { rows_read_.push_back(rows); };
    events_.made = [this](int64_t tokens, Duration since, bool first) {
      made_.push_back({tokens, since, first});
    };
    events_.failed = [this](std::string_view what) { failed_.emplace_back(what); };
    events_.deadline_missed = [this](std::string_view stage) { missed_.emplace_back(stage); };
    scheduler_ = std::make_unique<Scheduler>(&model_, &turns_, &clock_, options, events_, own_thread);
  }

  std::shared_ptr<FakeJob> New(int64_t rows, int64_t tokens = 1, Urgency urgency = {}) {
    return std::make_shared<FakeJob>(&model_, Terms(rows, tokens, urgency), tokens);
  }
  std::shared_ptr<FakeJob> NewWhole(int64_t rows) {
    JobTerms terms = Terms(rows, 1, {});
    terms.whole = true;
    return std::make_shared<FakeJob>(&model_, terms, 1);
  }
  JobTerms Terms(int64_t rows, int64_t tokens, Urgency urgency) {
    return {.urgency = urgency, .rows = rows, .bytes = model_.StateBytes(rows + tokens)};
  }
  std::shared_ptr<FakeJob> Submit(std::shared_ptr<FakeJob> job) {
    EXPECT_TRUE(scheduler_->Submit(job).ok());
    return job;
  }
  std::shared_ptr<FakeJob> Submit(int64_t rows, int64_t tokens = 1, Urgency urgency = {}) {
    return Submit(New(rows, tokens, urgency));
  }
  void StepAll() {
    while (scheduler_->Step()) {
    }
  }

  struct StepRows {
    int64_t rows, prompt_rows;
  };
  FakeClock clock_;
  FakeModel model_;
  Threads threads_{1};
  Turns turns_{&threads_, &clock_};
  SchedulerEvents events_;
  struct Made {
    int64_t tokens;
    Duration since;
    bool first;
    bool operator==(const Made&) const = default;
  };
  std::vector<StepRows> steps_;
  std::vector<int64_t> rows_read_;
  std::vector<Made> made_;
  std::vector<std::string> missed_;
  std::vector<std::string> failed_;
  std::unique_ptr<Scheduler> scheduler_;
};

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
