#include "client/cli/terminal.h"

#include <signal.h>
#include <unistd.h>

#include <future>
#include <sstream>

#include "client/cli/interrupt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::MatchesRegex;

TEST(OneLine, CutsBetweenCharactersAndDisarmsControlCharacters) {
  EXPECT_EQ(OneLine("a\x1b[2J\nb\x7f"), "a [2J b ");
  EXPECT_EQ(OneLine("äöü", 3), "äöü");
  EXPECT_EQ(OneLine("äöü", 2), "äö…");
  EXPECT_EQ(OneLine(""), "");
}

// What `err` gets for two portions of ten.
std::string ProgressOn(bool err_is_screen, bool out_is_screen) {
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err, false, out_is_screen, err_is_screen};
  {
    Progress progress(terminal, "inputs");
    progress.Add(10);
    progress.Add(10);
  }
  return err.str();
}

TEST(Progress, IsForAPersonWhoSeesNoAnswers) {
  EXPECT_THAT(
      ProgressOn(true, false),
      MatchesRegex("\r10 inputs, [0-9]+ a second\x1b\\[K\r20 inputs, [0-9]+ a second\x1b\\[K\r\x1b\\[K"));
  EXPECT_EQ(ProgressOn(true, true), "");
  EXPECT_EQ(ProgressOn(false, false), "");
}

// In processes of their own, which have no other threads.
void InterruptOnce() {
  std::promise<void> stopped;
  const Interrupt interrupt;
  const std::stop_callback on_stop(interrupt.token(), [&] { stopped.set_value(); });
  kill(getpid(), SIGINT);
  stopped.get_future().wait();
}

TEST(InterruptDeathTest, TheFirstAsksToStopAndTheSecondEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT((InterruptOnce(), _exit(42)), testing::ExitedWithCode(42), "");
  EXPECT_EXIT(
      {
        const Interrupt interrupt;
        std::promise<void> stopped;
        const std::stop_callback on_stop(interrupt.token(), [&] { stopped.set_value(); });
        kill(getpid(), SIGINT);
        stopped.get_future().wait();
        kill(getpid(), SIGINT);
        for (;;) pause();
      },
      testing::ExitedWithCode(kInterrupted), "");
}

TEST(InterruptDeathTest, LeavesTheSignalAsItWas) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT((InterruptOnce(), kill(getpid(), SIGINT), _exit(42)), testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace heed
