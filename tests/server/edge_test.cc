// Calls in and out: how many, until when, and which are cut off.
#include "server/edge.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/error.h"
#include "server/methods.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

constexpr Method kWork = kClassify;
constexpr Method kHealth = kCheck;

void Leave(Edge& edge, const Method& method, const absl::Status& status = absl::OkStatus(),
           Duration took = {}) {
  edge.Leave({.method = method, .status = status, .took = took, .request_id = "id", .use = {}, .peer = ""});
}

TEST(Edge, TakesSoManyCallsAndNoMore) {
  FakeClock clock;
  Edge edge(&clock, {.requests = 2});
  EXPECT_TRUE(edge.Enter(kWork).ok());
  EXPECT_TRUE(edge.Enter(kWork).ok());
  const absl::Status refused = edge.Enter(kWork);
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kTooManyRequests);
  EXPECT_TRUE(RetryDelayOf(refused));
  Leave(edge, kWork);  // the refused one
  EXPECT_EQ(edge.inside(), 2);
  Leave(edge, kWork);
  EXPECT_TRUE(edge.Enter(kWork).ok());
  Leave(edge, kWork);
  Leave(edge, kWork);
}

TEST(Edge, ClosedRefusesAllButHealth) {
  FakeClock clock;
  Edge edge(&clock, {.requests = 1});
  edge.Close();
  EXPECT_EQ(ReasonOf(edge.Enter(kWork)), ErrorReason::kServerStopping);
  EXPECT_TRUE(edge.Enter(kHealth).ok());
  EXPECT_TRUE(edge.Enter(kHealth).ok());
  EXPECT_EQ(edge.inside(), 1);
}

TEST(Edge, IsDoneWithoutHealthAndEmptyWithout) {
  FakeClock clock;
  Edge edge(&clock, {});
  ASSERT_TRUE(edge.Enter(kWork).ok() && edge.Enter(kHealth).ok());
  std::jthread leaving([&] { Leave(edge, kWork); });
  edge.WaitUntilDone(kNever);
  std::jthread asked([&] { Leave(edge, kHealth); });
  edge.WaitUntilEmpty(kNever);
  EXPECT_EQ(edge.inside(), 0);
}

TEST(Edge, TellsOfEveryCall) {
  FakeClock clock;
  std::vector<std::string> told;
  Edge edge(&clock, {},
            {.started = [&](const Method& method) { told.emplace_back(method.name); },
             .handled =
                 [&](const EndedCall& call) {
                   told.push_back(Cat(call.method.name, " ", std::string(Name(ReasonOf(call.status))), " ",
                                      ToSeconds(call.took), " ", call.request_id));
                 },
             .failed = nullptr});
  ASSERT_TRUE(edge.Enter(kWork).ok());
  Leave(edge, kWork, Error(ErrorReason::kModelError, "x"), seconds(2));
  EXPECT_EQ(told, (std::vector<std::string>{"Classify", "Classify MODEL_ERROR 2 id"}));
}

TEST(Edge, CountsRightWhenWhoIsToldThrows) {
  FakeClock clock;
  int failed = 0;
  Edge edge(&clock, {},
            {.started = [](const Method&) { throw std::runtime_error("no memory"); },
             .handled = [](const EndedCall&) { throw std::runtime_error("no memory"); },
             .failed = [&](std::string_view, std::string_view) { ++failed; }});
  EXPECT_TRUE(edge.Enter(kWork).ok());
  EXPECT_EQ(edge.inside(), 1);
  Leave(edge, kWork);
  EXPECT_EQ(edge.inside(), 0);
  EXPECT_EQ(failed, 2);
}

TEST(Edge, TriesWhatMayThrow) {
  FakeClock clock;
  std::string told;
  Edge edge(&clock, {},
            {.started = nullptr,
             .handled = nullptr,
             .failed = [&](std::string_view what, std::string_view id) { told = Cat(what, " ", id); }});
  EXPECT_TRUE(edge.Try([] {}).ok());
  EXPECT_EQ(ReasonOf(edge.Try([] { throw std::runtime_error("broken"); }, "id")), ErrorReason::kModelError);
  EXPECT_EQ(told, "broken id");
}

struct Writer : Stallable {
  void EndIfStalledSince(Time time) override { asked.push_back(time); }
  std::vector<Time> asked;
};

TEST(Edge, SweepsTheCallsThatItTracks) {
  FakeClock clock;
  Edge edge(&clock, {.stall = seconds(30)});
  auto tracked = std::make_shared<Writer>(), left = std::make_shared<Writer>(),
       gone = std::make_shared<Writer>();
  for (const auto& call : {tracked, left, gone}) edge.Track(call);
  edge.Untrack(left);
  gone.reset();
  clock.Move(seconds(100));
  edge.Sweep();
  EXPECT_EQ(tracked->asked, (std::vector<Time>{Time(seconds(70))}));
  EXPECT_TRUE(left->asked.empty());
}

// Reading gives to answering, which gives to streaming: as calls do whose client has gone.
TEST(Edge, RunsWhatItsThreadsWereGivenBeforeItGoes) {
  FakeClock clock;
  bool ran = false;
  {
    Edge edge(&clock, {});
    edge.intake().Run([&] {
      edge.intake().Run([&] { edge.answers().Run([&] { edge.streams().Run([&] { ran = true; }); }); });
    });
  }
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace heed
