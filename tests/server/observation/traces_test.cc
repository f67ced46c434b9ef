// Which calls are traced, and what becomes of their traces: a collector of the test's, no network.
#include "server/observation/traces.h"

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "server/methods.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

const std::string kSampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const std::string kNotSampled = kSampled.substr(0, 53) + "00";

// Takes all that comes, and remembers of each export how many calls it had.
struct Collector {
  Traces::Export Export() {
    return [this](std::span<const TracedCall> calls) {
      std::lock_guard lock(mutex);
      exports.push_back(calls.size());
      for (const TracedCall& call : calls) ids.push_back(call.request_id);
      return true;
    };
  }

  std::mutex mutex;
  std::vector<size_t> exports;
  std::vector<std::string> ids;
};

TracesOptions AtOnce() { return {.delay = Duration::zero()}; }

std::shared_ptr<Trace> Begin(const Traces& traces, const TraceHeaders& headers = {}) {
  return traces.Begin(kClassify, Time(), headers);
}

// A call of so many spans that has ended.
TracedCall Ended(const std::string& id, int spans = 1) {
  TracedCall call{.request_id = id};
  call.steps.resize(spans - 1);
  return call;
}

TEST(Traces, FollowWhatTheCallerSays) {
  Collector collector;
  for (double ratio : {0.0, 1.0}) {
    Traces traces({.sampling_ratio = ratio}, collector.Export());
    EXPECT_NE(Begin(traces, {.parent = kSampled}), nullptr);
    EXPECT_EQ(Begin(traces, {.parent = kNotSampled}), nullptr);
  }
}

TEST(Traces, OfCallersThatSayNothingAShareIsTraced) {
  Collector collector;
  struct Case {
    double ratio;
    int least, most;
  };
  for (const auto& [ratio, least, most] : {Case{0, 0, 0}, Case{0.25, 1, 1999}, Case{1, 2000, 2000}}) {
    Traces traces({.sampling_ratio = ratio}, collector.Export());
    int traced = 0;
    for (const char* parent : {"", "nonsense"}) {
      for (int i = 0; i < 1000; ++i) traced += Begin(traces, {.parent = parent}) != nullptr;
    }
    EXPECT_GE(traced, least) << ratio;
    EXPECT_LE(traced, most) << ratio;
  }
}

TEST(Traces, GoOnWithTheCallersAndElseBeginTheirOwn) {
  Collector collector;
  Traces traces({}, collector.Export());
  auto context = [&](const TraceHeaders& headers) {
    return Begin(traces, headers)->End({}, absl::OkStatus(), "id", {}).context;
  };
  const TraceContext theirs = context({.parent = kSampled, .state = "vendor=1"});
  EXPECT_EQ(theirs.trace_id[0], 0x4b);
  ASSERT_TRUE(theirs.parent_id.has_value());
  EXPECT_EQ(theirs.parent_id->back(), 0xb7);
  EXPECT_EQ(theirs.state, "vendor=1");
  EXPECT_EQ(context({.parent = kSampled, .state = std::string(513, 'x')}).state, "");
  const TraceContext first = context({.parent = "", .state = "vendor=1"}), second = context({});
  EXPECT_FALSE(first.parent_id.has_value());
  EXPECT_EQ(first.state, "");
  EXPECT_NE(first.trace_id, second.trace_id);
}

TEST(Traces, BeginWithTheMethodAndTheArrivalByBothClocks) {
  Collector collector;
  Traces traces({}, collector.Export());
  const auto before = std::chrono::system_clock::now().time_since_epoch();
  const TracedCall call =
      traces.Begin(kGenerate, Time(seconds(3)), {})->End(seconds(1), absl::OkStatus(), "id", {});
  const auto after = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_EQ(call.service, "heed.v1.Inference");
  EXPECT_EQ(call.method, "Generate");
  EXPECT_EQ(call.arrival, Time(seconds(3)));
  EXPECT_EQ(call.ended, Time(seconds(4)));
  EXPECT_GE(std::chrono::nanoseconds(call.unix_nanoseconds), before);
  EXPECT_LE(std::chrono::nanoseconds(call.unix_nanoseconds), after);
}

TEST(Traces, AreExportedWithoutBeingAskedFor) {
  std::promise<std::string> exported;
  Traces traces(AtOnce(), [&](std::span<const TracedCall> calls) {
    exported.set_value(calls.front().request_id);
    return true;
  });
  traces.Add(Ended("first"));
  EXPECT_EQ(exported.get_future().get(), "first");
}

TEST(Traces, WaitForOthersAndGoTogether) {
  Collector collector;
  {
    Traces traces({.batch_spans = 4, .delay = std::chrono::hours(1)}, collector.Export());
    for (int i = 0; i < 5; ++i) traces.Add(Ended(Cat(i), /*spans=*/2));
    traces.Close();
    EXPECT_EQ(traces.counts().exported, 10);
  }
  size_t calls = 0;
  for (const size_t n : collector.exports) {
    EXPECT_LE(n, 2u);
    calls += n;
  }
  EXPECT_EQ(calls, 5u);
  EXPECT_EQ(collector.ids, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
}

// While one is on its way, others wait for it: as many as there is room for.
TEST(Traces, ThatFindNoRoomAreDroppedAndCounted) {
  std::promise<void> exporting, go;
  std::vector<size_t> exports;
  Traces traces({.most_spans = 5, .delay = Duration::zero()}, [&](std::span<const TracedCall> calls) {
    if (exports.empty()) {
      exporting.set_value();
      go.get_future().wait();
    }
    exports.push_back(calls.size());
    return true;
  });
  traces.Add(Ended("on its way", 2));
  exporting.get_future().wait();
  traces.Add(Ended("waits", 2));
  traces.Add(Ended("has no room", 2));
  traces.Add(Ended("has", 1));
  EXPECT_EQ(traces.counts().dropped, 2);
  go.set_value();
  traces.Close();
  EXPECT_EQ(exports, (std::vector<size_t>{1, 2}));
  EXPECT_EQ(traces.counts().exported, 5);
  EXPECT_EQ(traces.counts().dropped, 2);
  traces.Add(Ended("too late"));
  EXPECT_EQ(traces.counts().dropped, 3);
}

TEST(Traces, ThatTheCollectorDoesNotTakeAreCounted) {
  int exports = 0;
  Traces traces(AtOnce(), [&](std::span<const TracedCall>) {
    if (++exports == 1) throw std::runtime_error("no memory");
    return false;
  });
  traces.Add(Ended("thrown", 2));
  while (traces.counts().failed == 0) std::this_thread::yield();
  traces.Add(Ended("refused", 3));
  traces.Close();
  EXPECT_EQ(traces.counts().failed, 5);
  EXPECT_EQ(traces.counts().exported, 0);
}

TEST(Traces, AtTheEndOnlyWhatIsOnItsWayIsWaitedFor) {
  std::promise<void> exporting, go;
  int exports = 0;
  const TracesOptions roomy{.most_spans = 1 << 30, .delay = Duration::zero()};
  Traces traces(roomy, [&](std::span<const TracedCall>) {
    if (++exports == 1) exporting.set_value();
    go.get_future().wait();
    return true;
  });
  traces.Add(Ended("on its way"));
  exporting.get_future().wait();
  traces.Add(Ended("waits", 4));
  std::jthread closing([&] { traces.Close(Duration::zero()); });
  while (traces.counts().dropped == 0) traces.Add(Ended("probe"));  // there is room until it is closed
  go.set_value();
  closing.join();
  EXPECT_EQ(exports, 1);
  EXPECT_EQ(traces.counts().exported, 1);
  EXPECT_GE(traces.counts().dropped, 4 + 1);
}

}  // namespace
}  // namespace heed
