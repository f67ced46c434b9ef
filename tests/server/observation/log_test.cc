// The log is written by a thread of its own: whoever logs does not wait for who reads.
#include "server/observation/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

using testing::HasSubstr;

// A pipe, which can be filled.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~Pipe() {
    Close();
    close(ends_[0]);
  }
  int in() const { return ends_[1]; }
  void Close() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
  }
  void Fill() {
    fcntl(in(), F_SETFL, O_NONBLOCK);
    for (const std::string page(4096, '.'); write(in(), page.data(), page.size()) > 0;) {
    }
    fcntl(in(), F_SETFL, 0);
  }
  // All that is ever written, to the pipe's end.
  std::string ReadAll() {
    std::string all;
    char bytes[4096];
    for (ssize_t n; (n = read(ends_[0], bytes, sizeof(bytes))) > 0;) all.append(bytes, n);
    return all;
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST(Log, IsOneLineOfPlainCharacters) {
  FlushLog();
  testing::internal::CaptureStderr();
  LogInfo("model loaded", {{"model", "a\nb\x1b[31m\u2028\u202e\xff"}});
  EXPECT_TRUE(FlushLog());
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_TRUE(std::all_of(line.begin(), line.end() - 1, [](unsigned char c) { return c >= 32 && c < 127; }))
      << line;
  EXPECT_THAT(line,
              HasSubstr(R"("severity":"info","event":"model loaded","model":"a\nb\u001b[31m\u2028\u202e)"));
}

// What is printed at this level of a line of each.
std::string PrintedAt(LogLevel level) {
  FlushLog();
  testing::internal::CaptureStderr();
  SetLogLevel(level);
  LogDebug("a");
  LogInfo("b");
  LogWarning("c");
  LogError("d");
  SetLogLevel(LogLevel::kInfo);
  EXPECT_TRUE(FlushLog());
  std::string printed;
  const std::string lines = testing::internal::GetCapturedStderr();
  for (size_t at = 0; (at = lines.find("\"event\":\"", at)) != lines.npos; at += 9) printed += lines[at + 9];
  return printed;
}

TEST(Log, PrintsItsLevelAndWhatIsMoreSevere) {
  EXPECT_EQ(PrintedAt(LogLevel::kDebug), "abcd");
  EXPECT_EQ(PrintedAt(LogLevel::kInfo), "bcd");
  EXPECT_EQ(PrintedAt(LogLevel::kWarning), "cd");
  EXPECT_EQ(PrintedAt(LogLevel::kError), "d");
}

TEST(Log, SaysHowSevereALineIs) {
  FlushLog();
  testing::internal::CaptureStderr();
  SetLogLevel(LogLevel::kError);
  LogError("broken");
  LogAlways("call", {{"code", "OK"}});
  SetLogLevel(LogLevel::kInfo);
  EXPECT_TRUE(FlushLog());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr(R"("severity":"error","event":"broken"})"),
                             HasSubstr(R"("severity":"info","event":"call","code":"OK"})")));
}

TEST(Log, WritesInOrder) {
  Pipe pipe;
  {
    LogWriter log(pipe.in());
    for (int i = 0; i < 100; ++i) log.Write(Cat(i, "\n"));
  }
  pipe.Close();
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += Cat(i, "\n");
  EXPECT_EQ(pipe.ReadAll(), expected);
}

// Nobody reads while 1,000 lines are logged: this test goes on, or it hangs here.
TEST(Log, AFullPipeHoldsNobodyUp) {
  Pipe pipe;
  pipe.Fill();
  std::string read;
  {
    LogWriter log(pipe.in(), /*most_bytes=*/1000);
    for (int i = 0; i < 1000; ++i) log.Write("one line\n");
    EXPECT_EQ(log.dropped(), 1000 - 1000 / 9);
    EXPECT_FALSE(log.Flush(Duration::zero()));
    std::jthread reader([&] { read = pipe.ReadAll(); });
    EXPECT_TRUE(log.Flush(seconds(20)));
    log.Write("and one\n");
    EXPECT_TRUE(log.Flush(seconds(20)));
    pipe.Close();
    reader.join();
  }
  const std::string lines = read.substr(read.find_first_not_of('.'));
  EXPECT_TRUE(lines.starts_with("one line\n"));
  EXPECT_THAT(lines, HasSubstr(R"("event":"log lines dropped","lines":889})"));
  EXPECT_TRUE(lines.ends_with("and one\n"));
}

// The same of the log itself.
TEST(Log, AFullStderrHoldsNobodyUp) {
  FlushLog();
  Pipe pipe;
  pipe.Fill();
  const int was = dup(STDERR_FILENO);
  dup2(pipe.in(), STDERR_FILENO);
  const int64_t dropped = LogLinesDropped();
  for (int i = 0; i < 20'000; ++i) LogInfo("one of very many lines of which nobody reads any");
  EXPECT_GT(LogLinesDropped(), dropped);
  pipe.Close();
  std::jthread reader([&] { pipe.ReadAll(); });  // ends with the last copy of the pipe's other end
  EXPECT_TRUE(FlushLog(seconds(20)));
  dup2(was, STDERR_FILENO);
  close(was);
}

TEST(Log, ABrokenPipeIsCountedAndEndsNothing) {
  auto pipe = std::make_unique<Pipe>();
  const int in = dup(pipe->in());
  pipe.reset();
  LogWriter log(in);
  log.Write("one line\n");
  EXPECT_TRUE(log.Flush(seconds(20)));
  EXPECT_EQ(log.dropped(), 1);
  close(in);
}

TEST(Log, WhatComesOftenIsLimited) {
  FakeClock clock;
  LogLimit limit(3, &clock);
  auto let = [&] {
    int lines = 0;
    for (int i = 0; i < 10; ++i) lines += limit.Lets();
    return lines;
  };
  const int64_t dropped = LogLinesDropped();
  EXPECT_EQ(let(), 3);
  EXPECT_EQ(let(), 0);
  EXPECT_EQ(LogLinesDropped(), dropped + 17);
  clock.Move(seconds(1));
  EXPECT_EQ(let(), 3);
}

}  // namespace
}  // namespace heed
