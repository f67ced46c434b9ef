#include "client/cli/terminal.h"

#include <signal.h>
#include <unistd.h>

#include <future>
#include <sstream>

#include "client/cli/interrupt.h"
#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "heed/v1/common.pb.h"

namespace heed::cli {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

TEST(OneLine, CutsBetweenCharactersAndEscapesWhatATerminalObeys) {
  EXPECT_EQ(OneLine("a\x1b[2J\nb\x7f"), "a\\x1b[2J b\\x7f");
  EXPECT_EQ(OneLine("äöü", 3), "äöü");
  EXPECT_EQ(OneLine("äöü", 2), "äö…");
  EXPECT_EQ(OneLine("a\x1b\x1b", 2), "a\\x1b…");
  EXPECT_EQ(OneLine(""), "");
}

TEST(ForScreen, KeepsLinesAndEscapesEachCharacterThatATerminalObeys) {
  EXPECT_EQ(ForScreen("Two\nlines\tand ä 😀"), "Two\nlines\tand ä 😀");
  EXPECT_EQ(ForScreen("a\rb\x08\x1b]0;t\x07"), "a\\x0db\\x08\\x1b]0;t\\x07");
  const struct {
    const char *text, *shown;
  } kObeyed[] = {{"\u0080", "\\u0080"}, {"\u009b", "\\u009b"}, {"\u009f", "\\u009f"}, {"\u200e", "\\u200e"},
                 {"\u200f", "\\u200f"}, {"\u202a", "\\u202a"}, {"\u202e", "\\u202e"}, {"\u2066", "\\u2066"},
                 {"\u2069", "\\u2069"}, {"\u2028", "\\u2028"}, {"\u061c", "\\u061c"}};
  for (const auto& [text, shown] : kObeyed) {
    EXPECT_EQ(ForScreen(text), shown);
    EXPECT_EQ(OneLine(text), shown);
    EXPECT_EQ(Quoted(text), Cat("\"", shown, "\""));
  }
  for (const char* harmless : {"\u00a0", "\u200d", "\u2010", "\u202f", "\u2065", "\u206a"})
    EXPECT_EQ(ForScreen(harmless), harmless);
}

TEST(ForScreen, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(ForScreen("a\x9b"
                      "31m"),
            "a\uFFFD31m");
  EXPECT_EQ(OneLine("\xff", 1), "\uFFFD");
  EXPECT_EQ(Quoted("\x9b\xff"), "\"\\x9b\\xff\"");
}

TEST(Quoted, IsATokenExactly) {
  EXPECT_EQ(Quoted("a\n\"\x1b"), "\"a\\n\\\"\\033\"");
  EXPECT_EQ(Quoted("ä"), "\"ä\"");
}

TEST(ToJson, IsHarmlessAndReadable) {
  v1::Pair pair;
  pair.set_first("ä\x1b\u009b\u202e\u2066");
  EXPECT_THAT(ToJson(pair), HasSubstr("\"ä\\u001b\\u009b\\u202e\\u2066\""));
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
}  // namespace heed::cli
