// The world of the scheduler's tests: a job of as many rows as one wants, and a scheduler by a fake clock.
#ifndef HEED_TESTS_SERVER_SCHEDULER_WORLD_H_
#define HEED_TESTS_SERVER_SCHEDULER_WORLD_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/scheduler.h"
#include "tests/server/fakes.h"

namespace heed {

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

  absl::StatusCode code() const { return ended.value_or(absl::UnknownError("not ended")).code(); }

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

}  // namespace heed

#endif  // HEED_TESTS_SERVER_SCHEDULER_WORLD_H_
