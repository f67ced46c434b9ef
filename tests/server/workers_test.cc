// Threads that run tasks, and what becomes of one that throws.
#include "server/workers.h"

#include <atomic>
#include <future>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/caught.h"
#include "server/error.h"

namespace heed {
namespace {

TEST(Workers, RunTasksInTheOrderGiven) {
  std::vector<int> order;
  {
    Workers workers(1);
    for (int i = 0; i < 100; ++i) workers.Run([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(Workers, RunSideBySide) {
  std::promise<void> first, second;
  bool met = false;
  {
    Workers workers(2);
    workers.Run([&] {
      first.set_value();
      second.get_future().wait();
      met = true;
    });
    workers.Run([&] {
      first.get_future().wait();
      second.set_value();
    });
  }
  EXPECT_TRUE(met);
}

TEST(Workers, GoOnAfterATaskThatHasThrown) {
  std::vector<std::string> told;
  bool ran = false;
  {
    Workers workers(1, [&](std::string_view what) { told.emplace_back(what); });
    workers.Run([] { throw std::runtime_error("broken"); });
    workers.Run([] { throw 7; });
    workers.Run([&] { ran = true; });
  }
  EXPECT_TRUE(ran);
  EXPECT_EQ(told, (std::vector<std::string>{"broken", "an unknown exception"}));
}

TEST(Workers, RunWhatTheirLastTasksGive) {
  std::atomic<int> ran = 0;
  {
    Workers workers(2);
    workers.Run([&] {
      workers.Run([&] { ++ran; });
      ++ran;
    });
  }
  EXPECT_EQ(ran, 2);
}

// What becomes of what `body` returns or throws.
template <typename Body>
absl::Status Outcome(Body body) {
  return Caught("it has failed", body, /*failed=*/nullptr);
}

TEST(Caught, WhatIsReturnedStays) {
  EXPECT_TRUE(Outcome([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(Outcome([] { return absl::NotFoundError("none"); }), absl::NotFoundError("none"));
}

TEST(Caught, WhatIsThrownBecomesAStatusWithTheSentence) {
  const absl::Status memory = Outcome([]() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_EQ(ReasonOf(memory), ErrorReason::kOutOfMemory);
  EXPECT_EQ(memory.message(), "it has failed: no memory is left");
  for (const absl::Status& status : {Outcome([]() -> absl::Status { throw std::runtime_error("secret"); }),
                                     Outcome([]() -> absl::Status { throw 7; })}) {
    EXPECT_EQ(ReasonOf(status), ErrorReason::kModelError);
    EXPECT_EQ(status.message(), "it has failed");
  }
}

TEST(Caught, IsNotHurtByWhoIsTold) {
  const auto throws = []() -> absl::Status { throw std::bad_alloc(); };
  const auto throwing = [](std::string_view) { throw std::runtime_error("no log"); };
  EXPECT_FALSE(Caught("it has failed", throws, throwing).ok());
}

}  // namespace
}  // namespace heed
