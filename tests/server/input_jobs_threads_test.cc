// The inputs of a request on their way through a scheduler with a thread of its own: all are answered once,
// whoever cancels, fills the queue or stops the server meanwhile.
#include "server/jobs/input_jobs.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "server/error.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

constexpr auto kLong = seconds(20);  // what takes longer has failed

// Reads its rows in one pass.
class RowsJob : public Job {
 public:
  using Done = std::function<void(const absl::Status&)>;
  RowsJob(const Model* model, const JobTerms& terms, Done done)
      : Job(terms), sequence_(model->Start()), done_(std::move(done)) {}

  int64_t Rows() const override { return terms().rows; }
  void Next(int64_t rows, std::vector<Work>* batch) override {
    batch->push_back({.sequence = sequence_.get(), .tokens = std::vector<int32_t>(rows)});
  }
  absl::StatusOr<bool> Take() override { return true; }
  void End(const absl::Status& status) override {
    sequence_.reset();
    done_(status);
  }

 private:
  std::unique_ptr<Sequence> sequence_;
  const Done done_;
};

// A request of `count` inputs, and how each of them ended.
class Request : public InputJobs {
 public:
  explicit Request(const RequestTerms& terms) : InputJobs(terms), ends_(terms.inputs) {}

  // In the order of the inputs, once the last has ended.
  std::vector<absl::StatusCode> Ends() {
    EXPECT_EQ(completed_.get_future().wait_for(kLong), std::future_status::ready);
    std::vector<absl::StatusCode> codes;
    for (const auto& end : ends_) codes.push_back(end ? end->code() : absl::StatusCode::kUnknown);
    return codes;
  }
  const absl::Status& end(int i) const { return *ends_[i]; }
  int made() const { return made_; }
  int most_at_a_time() const { return most_; }

  std::function<absl::Status(int i)> refuses = [](int) { return absl::OkStatus(); };  // in place of a job
  std::function<void(int i)> on_make = [](int) {};

 private:
  absl::StatusOr<std::shared_ptr<Job>> Make(int i) override {
    on_make(i);
    RETURN_IF_ERROR(refuses(i));
    RETURN_IF_ERROR(Reserve(1));
    ++made_;
    most_ = std::max<int>(most_, ++outside_);
    auto self = std::static_pointer_cast<Request>(shared_from_this());
    return std::make_shared<RowsJob>(&model().model(), JobTerms{.urgency = urgency(), .rows = 3, .bytes = 24},
                                     [self, i](const absl::Status& status) {
                                       --self->outside_;
                                       self->Put(i, status);
                                       self->Ended(i);
                                     });
  }
  void Refused(int i, const absl::Status& status) override { Put(i, status); }
  void Put(int i, const absl::Status& status) {
    EXPECT_FALSE(ends_[i].has_value()) << i;
    ends_[i] = status;
  }
  void Complete() override { completed_.set_value(); }

  std::vector<std::optional<absl::Status>> ends_;  // [i]: written once, by whoever ends the i-th
  std::promise<void> completed_;
  std::atomic<int> made_{0}, outside_{0};
  int most_ = 0;  // of the jobs between Make() and their end
};

absl::Status Gone() { return Error(ErrorReason::kClientCancelled, "the client has gone"); }

class InputJobsThreadsTest : public testing::Test {
 protected:
  ~InputJobsThreadsTest() override { Open(); }

  void Start(int max_queued, int max_batch_jobs = 256) {
    ModelSpec spec{.name = "m"};
    spec.scheduling.max_queued_jobs = max_queued;
    spec.scheduling.max_batch_jobs = max_batch_jobs;
    registry_ = std::make_unique<Registry>(std::vector{spec}, &turns_, &Clock::Real());
    const auto load = [this](const ModelSpec&) -> absl::StatusOr<LoadedModel> {
      auto model = std::make_unique<FakeModel>();
      model->on_layer = [this](int) {
        reached_ = true;
        reached_.notify_all();
        if (closed_) opened_.wait_for(kLong);
      };
      return LoadedModel{.model = std::move(model)};
    };
    ASSERT_TRUE(registry_->Load(0, load).ok());
    model_ = *registry_->Find("m", "");
    edge_ = std::make_unique<Edge>(&Clock::Real(), EdgeOptions{},
                                   EdgeEvents{.failed = [this](auto, auto) { ++failed_; }});
  }

  std::shared_ptr<Request> New(int inputs, Time deadline = kNever) {
    return std::make_shared<Request>(RequestTerms{.edge = edge_.get(),
                                                  .model = model_,
                                                  .memory = &memory_,
                                                  .inputs = inputs,
                                                  .urgency = {.deadline = deadline}});
  }
  // As a call does it: on the edge's intake.
  std::shared_ptr<Request> Go(std::shared_ptr<Request> request) {
    edge_->intake().Run([request] { request->Start(); });
    return request;
  }

  // From here on the model waits in its first layer for Open().
  void Close() { closed_ = true; }
  void Open() {
    if (closed_.exchange(false)) open_.set_value();
  }
  void WaitUntilTheModelIsReached() { reached_.wait(false); }
  static void WaitUntil(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + kLong;
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), until);
      std::this_thread::yield();
    }
  }
  void WaitUntilQueued(int64_t jobs) {
    WaitUntil([&] { return model_->scheduler->queued() == jobs; });
  }
  void WaitUntilDraining() {
    WaitUntil([&] {
      const auto probe = std::make_shared<RowsJob>(&model_->model(), JobTerms{}, [](const absl::Status&) {});
      return absl::IsUnavailable(model_->scheduler->Submit(probe));
    });
  }
  // A request that is in the model, and others that fill the queue behind it but for `left` places.
  void Fill(int max_queued, int left) {
    Close();
    others_.push_back(Go(New(1)));
    WaitUntilTheModelIsReached();
    for (int i = 0; i < max_queued - left; ++i) others_.push_back(Go(New(1)));
    WaitUntilQueued(max_queued - left);
  }
  void ExpectOthersAnswered() {
    for (const auto& other : others_) EXPECT_EQ(other->Ends(), std::vector(1, absl::StatusCode::kOk));
  }

  AnswerMemory memory_{1'000, 1'000};
  std::atomic<int> failed_{0};  // what has thrown
  std::atomic<bool> closed_{false}, reached_{false};
  std::promise<void> open_;
  const std::shared_future<void> opened_{open_.get_future()};
  Threads threads_{1};
  Turns turns_{&threads_, &Clock::Real()};
  std::unique_ptr<Registry> registry_;
  const ServedModel* model_ = nullptr;
  std::unique_ptr<Edge> edge_;  // after the registry: its tasks use the model
  std::vector<std::shared_ptr<Request>> others_;
};

TEST_F(InputJobsThreadsTest, AreAllAnsweredAndFillHalfTheQueueAtMost) {
  Start(/*max_queued=*/8);
  auto request = Go(New(500));
  EXPECT_EQ(request->Ends(), std::vector(500, absl::StatusCode::kOk));
  EXPECT_EQ(request->made(), 500);
  EXPECT_LE(request->most_at_a_time(), 4);
}

TEST_F(InputJobsThreadsTest, ThatCannotBeMadeDoNotHoldUpTheOthers) {
  Start(/*max_queued=*/8);
  auto request = New(100);
  request->refuses = [](int i) {
    return i % 3 == 0 ? absl::InvalidArgumentError("a third") : absl::OkStatus();
  };
  const auto ends = Go(request)->Ends();
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(ends[i], i % 3 == 0 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk) << i;
}

// Half the queue is made at once, on the way into the model, and the rest as others end.
TEST_F(InputJobsThreadsTest, WhoseMakingThrowsAreRefusedAlone) {
  Start(/*max_queued=*/4);
  auto request = New(20);
  request->on_make = [](int i) {
    if (i % 5 == 4) throw std::runtime_error("broken");
    if (i == 0) throw std::bad_alloc();
  };
  const auto ends = Go(request)->Ends();
  for (int i = 1; i < 20; ++i)
    EXPECT_EQ(ends[i], i % 5 == 4 ? absl::StatusCode::kInternal : absl::StatusCode::kOk) << i;
  EXPECT_EQ(ends[0], absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(failed_, 5);
}

TEST_F(InputJobsThreadsTest, NoneOfWhichCanBeMadeEndTheRequest) {
  Start(/*max_queued=*/8);
  auto request = New(100);
  request->refuses = [](int) { return absl::InvalidArgumentError("all"); };
  EXPECT_EQ(Go(request)->Ends(), std::vector(100, absl::StatusCode::kInvalidArgument));
}

TEST_F(InputJobsThreadsTest, OfSeveralRequestsAreAnsweredSideBySide) {
  Start(/*max_queued=*/64);
  std::vector<std::shared_ptr<Request>> requests;
  for (int i = 0; i < 2; ++i) requests.push_back(Go(New(300)));
  for (const auto& request : requests) EXPECT_EQ(request->Ends(), std::vector(300, absl::StatusCode::kOk));
}

// ------------------------------------------------------------------------------------------------- cancelled

TEST_F(InputJobsThreadsTest, OfACancelledRequestAreNotMadeAnyMore) {
  Start(/*max_queued=*/8);
  Close();
  auto request = Go(New(100));
  WaitUntilTheModelIsReached();
  std::jthread([&] { request->Stop(Gone()); }).join();
  Open();
  EXPECT_EQ(request->Ends(), std::vector(100, absl::StatusCode::kCancelled));
  EXPECT_LE(request->made(), 4);
}

TEST_F(InputJobsThreadsTest, MayBeCancelledWhileTheyAreMade) {
  Start(/*max_queued=*/8);
  auto request = New(100);
  request->on_make = [&](int i) {
    if (i == 10) std::jthread([&] { request->Stop(Gone()); }).join();
  };
  const auto ends = Go(request)->Ends();
  for (int i = 10; i < 100; ++i) EXPECT_EQ(ends[i], absl::StatusCode::kCancelled) << i;
  EXPECT_EQ(request->made(), 11);
}

TEST_F(InputJobsThreadsTest, MayBeCancelledBeforeTheyStartAndAfterTheirEnd) {
  Start(/*max_queued=*/8);
  auto request = New(10);
  request->Stop(Gone());
  EXPECT_EQ(Go(request)->Ends(), std::vector(10, absl::StatusCode::kCancelled));
  EXPECT_EQ(request->made(), 0);
  request->Stop(Gone());
}

// From several threads, at whatever moment: every input still has one end.
TEST_F(InputJobsThreadsTest, MayBeCancelledAtAnyMoment) {
  Start(/*max_queued=*/8);
  for (int round = 0; round < 50; ++round) {
    auto request = Go(New(50));
    std::jthread one([&] { request->Stop(Gone()); }), two([&] { request->Stop(Gone()); });
    for (absl::StatusCode end : request->Ends())
      EXPECT_TRUE(end == absl::StatusCode::kOk || end == absl::StatusCode::kCancelled) << end;
  }
}

// ---------------------------------------------------------------------------------------------- a full queue

TEST_F(InputJobsThreadsTest, AreRefusedByAFullQueueThatHasNoneOfThem) {
  Start(/*max_queued=*/4, /*max_batch_jobs=*/1);
  Fill(/*max_queued=*/4, /*left=*/0);
  auto request = Go(New(3));
  EXPECT_EQ(request->Ends(), std::vector(3, absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(request->made(), 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ReasonOf(request->end(i)), ErrorReason::kQueueFull);
    EXPECT_TRUE(RetryDelayOf(request->end(i)).has_value());
  }
  Open();
  ExpectOthersAnswered();
}

TEST_F(InputJobsThreadsTest, WaitForTheirOwnWhereTheQueueIsFullOfOthers) {
  Start(/*max_queued=*/4, /*max_batch_jobs=*/1);
  Fill(/*max_queued=*/4, /*left=*/1);
  auto request = Go(New(50));
  WaitUntilQueued(4);
  EXPECT_EQ(request->made(), 1);
  Open();
  EXPECT_EQ(request->Ends(), std::vector(50, absl::StatusCode::kOk));
  ExpectOthersAnswered();
}

// ----------------------------------------------------------------------------------- deadlines, and the end

// What is in the model at the deadline ends with it, and what waits behind is never made.
TEST_F(InputJobsThreadsTest, AreNotMadeAfterTheDeadline) {
  Start(/*max_queued=*/8);
  Close();
  const Time deadline = Clock::Real().Now() + milliseconds(200);
  auto request = Go(New(100, deadline));
  while (Clock::Real().Now() < deadline) std::this_thread::yield();
  Open();
  EXPECT_EQ(request->Ends(), std::vector(100, absl::StatusCode::kDeadlineExceeded));
  EXPECT_LE(request->made(), 4);
}

TEST_F(InputJobsThreadsTest, EndAtTheirDeadline) {
  Start(/*max_queued=*/8);
  Close();
  auto request = Go(New(100, Clock::Real().Now()));
  EXPECT_EQ(request->Ends(), std::vector(100, absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(request->made(), 0);
}

TEST_F(InputJobsThreadsTest, EndWithTheServer) {
  Start(/*max_queued=*/8);
  Close();
  auto request = Go(New(100));
  WaitUntilTheModelIsReached();
  std::jthread drain([&] { registry_->Drain(Clock::Real().Now()); });
  WaitUntilDraining();
  Open();
  EXPECT_EQ(request->Ends(), std::vector(100, absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace heed
