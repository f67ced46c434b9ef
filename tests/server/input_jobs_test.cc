// The inputs of a request on their way: which are made when, and who is refused.
#include "server/jobs/input_jobs.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "server/error.h"
#include "server/jobs/classify.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

ModelInfo TwoLabels() {
  ModelInfo info;
  info.head = Head::kClassification;
  info.labels = {"no", "yes"};
  info.vocab_size = 10;
  info.output_width = 2;
  return info;
}

// Inputs of one token, which are remembered by what became of them.
class Inputs final : public InputJobs {
 public:
  using InputJobs::InputJobs;
  using InputJobs::refusal;

  std::vector<int> made;
  std::vector<absl::Status> ends;
  bool complete = false;
  int64_t bytes = 1;  // of each answer
  std::function<void(int i)> on_make = [](int) {};

 private:
  absl::StatusOr<std::shared_ptr<Job>> Make(int i) override {
    made.push_back(i);
    on_make(i);
    RETURN_IF_ERROR(Reserve(bytes));
    auto done = [self = shared_from_this(), this, i](const auto& job) { Add(i, job.status()); };
    return NewClassifyJob({.model = &model().model(), .ids = {1}, .urgency = urgency()}, {}, done);
  }
  void Refused(int i, const absl::Status& status) override { ends.push_back(status); }
  void Complete() override { complete = true; }
  void Add(int i, const absl::Status& status) {
    ends.push_back(status);
    Ended(i);
  }
};

// A model whose scheduler steps by hand.
class InputJobsTest : public testing::Test {
 protected:
  InputJobsTest() {
    auto model = std::make_unique<FakeModel>(2, TwoLabels());
    model->head = [](const std::vector<int32_t>&) { return std::vector<float>{0, 1}; };
    served_.loaded.model = std::move(model);
    served_.spec.name = "m";
    served_.spec.scheduling.max_queued_jobs = 4;
    served_.scheduler = std::make_unique<Scheduler>(
        &served_.model(), &turns_, &clock_, served_.spec.scheduling, SchedulerEvents{}, /*own_thread=*/false);
  }

  std::shared_ptr<Inputs> Request(int inputs, Time deadline = kNever) {
    return std::make_shared<Inputs>(RequestTerms{.edge = &edge_,
                                                 .model = &served_,
                                                 .memory = &memory_,
                                                 .inputs = inputs,
                                                 .urgency = {.deadline = deadline}});
  }
  void StepUntilIdle() {
    while (served_.scheduler->Step()) {
    }
  }

  FakeClock clock_;
  Threads threads_{1};
  Turns turns_{&threads_, &clock_};
  AnswerMemory memory_{10, 10};
  ServedModel served_;
  Edge edge_{&clock_, {}};
};

TEST_F(InputJobsTest, AnInputIsNotMadeAfterTheDeadline) {
  auto request = Request(3, clock_.Now() + seconds(1));
  request->on_make = [&](int i) {
    if (i == 0) clock_.Move(seconds(2));
  };
  request->Start();
  StepUntilIdle();
  EXPECT_EQ(request->made, std::vector<int>{0});
  EXPECT_TRUE(request->complete);
  ASSERT_EQ(request->ends.size(), 3u);
  for (const absl::Status& end : request->ends) EXPECT_EQ(ReasonOf(end), ErrorReason::kDeadlineExceeded);
}

TEST_F(InputJobsTest, ATraceIsToldHowLongEachInputWasRead) {
  const auto trace = std::make_shared<Trace>(TracedCall{});
  auto request = std::make_shared<Inputs>(
      RequestTerms{.edge = &edge_, .model = &served_, .memory = &memory_, .inputs = 2, .trace = trace});
  request->on_make = [&](int i) {
    clock_.Move(seconds(1 + i));
    if (i == 1) request->bytes = 100;  // too large: the second is refused
  };
  request->Start();
  StepUntilIdle();
  std::vector<TraceStep> read;
  for (const TraceStep& step : trace->End({}, absl::OkStatus(), "id", {}).steps) {
    if (step.kind == TraceStep::kTokenize) read.push_back(step);
  }
  ASSERT_EQ(read.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(read[i].input, i);
    EXPECT_EQ(read[i].end - read[i].begin, seconds(1 + i));
    EXPECT_EQ(read[i].failed, i == 1);
  }
}

TEST_F(InputJobsTest, NoInputIsMadeWhenTheClientHasGone) {
  auto request = Request(3);
  request->on_make = [&](int) { request->Stop(Error(ErrorReason::kClientCancelled, "gone")); };
  request->Start();
  StepUntilIdle();
  EXPECT_EQ(request->made, std::vector<int>{0});
  EXPECT_TRUE(request->complete);
  for (const absl::Status& end : request->ends) EXPECT_EQ(ReasonOf(end), ErrorReason::kClientCancelled);
}

TEST_F(InputJobsTest, AnAnswerTooLargeStopsTheRequestAndTheJobsItHas) {
  auto request = Request(3);
  request->bytes = 6;
  request->Start();
  StepUntilIdle();
  EXPECT_EQ(request->made, (std::vector<int>{0, 1}));
  EXPECT_EQ(ReasonOf(request->refusal()), ErrorReason::kAnswerTooLarge);
  EXPECT_TRUE(request->complete);
  ASSERT_EQ(request->ends.size(), 3u);
  EXPECT_EQ(ReasonOf(request->ends[0]), ErrorReason::kAnswerTooLarge);
  EXPECT_EQ(ReasonOf(request->ends[1]), ErrorReason::kAnswerTooLarge);
  EXPECT_EQ(ReasonOf(request->ends[2]), ErrorReason::kClientCancelled);  // the one that was under way
  EXPECT_EQ(memory_.reserved(), 6);
  request.reset();
  EXPECT_EQ(memory_.reserved(), 0);
}

TEST_F(InputJobsTest, AFullQueueRefusesWhoHasNothingInItBeforeAnInputIsMade) {
  auto before = Request(2), also = Request(2), late = Request(3);
  before->Start();
  also->Start();
  late->Start();
  EXPECT_TRUE(late->made.empty());
  EXPECT_TRUE(late->complete);
  ASSERT_EQ(late->ends.size(), 3u);
  for (const absl::Status& end : late->ends) {
    EXPECT_EQ(ReasonOf(end), ErrorReason::kQueueFull);
    EXPECT_TRUE(RetryDelayOf(end).has_value());
  }
  StepUntilIdle();
  EXPECT_TRUE(before->complete && also->complete);
}

}  // namespace
}  // namespace heed
