// heed top: pages of lines where no terminal is, and at one, a pseudo-terminal of the test's, the screen.
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"
#include "tests/client/metrics.h"

namespace heed::cli {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// A server that has made 100 tokens a second since its start, a second a call, and knows of two models.
class TopCommand : public testing::Test {
 protected:
  TopCommand() {
    server_.get_metrics = [this](auto&, const v1::GetMetricsRequest& request,
                                 v1::GetMetricsResponse& response) {
      EXPECT_THAT(request.prefixes(), testing::Contains("heed_generation_tokens_total"));
      const int seconds = ++calls_;
      if (seconds >= refused_.first && seconds <= refused_.last)
        return Refusal(grpc::UNAVAILABLE, "the server is stopping", {.reason = "SERVER_STOPPING"});
      MadeMetrics made(seconds);
      made.Value("heed_build_info", 1, {{"version", "0.2.0"}});
      made.Value("process_start_time_seconds", 1000);
      made.Model("writer", "ready");
      made.Model("another", "loading");
      made.Value("heed_generation_tokens_total", 100 * seconds, {{"model_name", "writer"}});
      response = made.answer;
      return grpc::Status::OK;
    };
  }

  struct {
    int first = 1, last = 0;
  } refused_;  // calls; none
  std::atomic<int> calls_ = 0;
  FakeServer server_;  // last: it uses the rest
};

TEST_F(TopCommand, PrintsAPageForEachInterval) {
  const Outcome run = RunAt(server_, {"top", "--count=2", "--interval=0.1s", "--sort=generated"});
  EXPECT_EQ(run.exit, kDone);
  EXPECT_EQ(calls_, 3);  // two intervals
  std::vector<std::string> lines;
  std::string line;
  for (std::istringstream out(run.out); std::getline(out, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 12u) << run.out;
  EXPECT_THAT(lines[0], ContainsRegex("^20..-..-..T..:..:..Z heed 0\\.2\\.0 at 127"));
  EXPECT_THAT(lines[0], HasSubstr(", up 2s, every 100ms"));
  EXPECT_THAT(lines[2], ContainsRegex("^MODEL  *STATE .*GEN/S↓.*MEMORY$"));
  EXPECT_THAT(lines[3], ContainsRegex("^writer  *ready .* 100 "));
  EXPECT_THAT(lines[4], ContainsRegex("^another  *loading .* 0 "));
  EXPECT_EQ(lines[5], "");
  EXPECT_THAT(lines[6], HasSubstr(", up 3s,"));
  EXPECT_THAT(run.out, Not(HasSubstr("\x1b")));
}

TEST_F(TopCommand, GivesTheAnswersAsJson) {
  const Outcome run = RunAt(server_, {"top", "--json", "--count=1"});
  EXPECT_EQ(run.exit, kDone);
  EXPECT_EQ(calls_, 1);
  EXPECT_THAT(run.out, AllOf(HasSubstr("\"uptime_seconds\":1"), HasSubstr("heed_generation_tokens_total")));
  EXPECT_EQ(run.out.find('\n'), run.out.size() - 1);
}

TEST_F(TopCommand, EndsWhereTheServerHasGone) {
  refused_ = {.first = 2, .last = 1000};
  const Outcome run = RunAt(server_, {"top", "--interval=0.1s"});
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_THAT(run.err, HasSubstr("the server is stopping"));
}

TEST_F(TopCommand, RefusesAnIntervalAndAColumnByName) {
  EXPECT_THAT(Heed({"top", "--interval=10ms"}).err, HasSubstr("--interval=10ms: must be a duration"));
  EXPECT_THAT(Heed({"top", "--count=-1"}).err, HasSubstr("--count=-1: must be a whole number of 0 to"));
  EXPECT_THAT(Heed({"top", "--sort=colour"}).err, HasSubstr("must be model, state, running"));
  EXPECT_EQ(Heed({"top", "--sort=colour"}).exit, kUsage);
}

// `heed top` at a pseudo-terminal, whose other end the test reads and types at.
class Screen {
 public:
  explicit Screen(const FakeServer& server, std::vector<std::string> words = {}, int width = 120) {
    EXPECT_EQ(openpty(&person_, &program_, nullptr, nullptr, nullptr), 0);
    Resize(width);
    EXPECT_EQ(tcgetattr(program_, &before_), 0);
    setenv("TERM", "xterm", 1);
    words.insert(words.begin(), {"top", "--address=" + server.address(), "--interval=0.1s"});
    thread_ = std::jthread([this, words] { Run(words); });
  }
  ~Screen() {
    if (thread_.joinable()) End("q");
    close(person_);
  }

  void Resize(int width) {
    const winsize size{.ws_row = 20, .ws_col = static_cast<unsigned short>(width)};
    EXPECT_EQ(ioctl(person_, TIOCSWINSZ, &size), 0);
  }

  void Type(const std::string& keys) {
    EXPECT_EQ(write(person_, keys.data(), keys.size()), std::ssize(keys));
  }

  // Reads what is drawn up to this text; fails if nothing more is drawn for 20 s.
  void Await(const std::string& text) {
    size_t found;
    while ((found = unread_.find(text)) == unread_.npos) {
      if (!Read()) return (void)(ADD_FAILURE() << "never drawn: " << text << " in " << unread_);
    }
    unread_.erase(0, found + text.size());
  }

  // Types the keys, and gives the exit status.
  int End(const std::string& keys) {
    Type(keys);
    while (Read()) {  // so that it can write
    }
    thread_.join();
    return exit_;
  }

  // The person's window is closed.
  int HangUp() {
    close(std::exchange(person_, -1));
    thread_.join();
    return exit_;
  }

  bool EchoesLines() const {
    termios modes;
    EXPECT_EQ(tcgetattr(person_, &modes), 0);
    return (modes.c_lflag & ICANON) != 0 && (modes.c_lflag & ECHO) != 0 && (modes.c_lflag & ISIG) != 0;
  }
  bool IsAsBefore() const {  // after the end
    return after_.c_lflag == before_.c_lflag && after_.c_iflag == before_.c_iflag &&
           after_.c_oflag == before_.c_oflag && all_.ends_with("\x1b[?7h\x1b[?25h\x1b[?1049l");
  }
  const std::string& all() const { return all_; }  // that was read

 private:
  void Run(const std::vector<std::string>& words) {
    std::istringstream in;
    std::ostringstream out, err;
    Terminal terminal{in, out, err, true, true, true};
    terminal.in_descriptor = terminal.out_descriptor = program_;
    exit_ = RunCommand(ClientCommands(), words, terminal);
    EXPECT_EQ(out.str() + err.str(), "");
    (void)tcgetattr(program_, &after_);
    close(program_);
  }

  bool Read() {
    pollfd there{person_, POLLIN, 0};
    char bytes[4096];
    if (poll(&there, 1, 20'000) != 1) return false;
    const ssize_t count = read(person_, bytes, sizeof(bytes));
    if (count <= 0) return false;  // the other end is closed
    unread_.append(bytes, count);
    all_.append(bytes, count);
    return true;
  }

  int person_ = -1, program_ = -1;
  termios before_{}, after_{};
  int exit_ = -1;
  std::string unread_, all_;
  std::jthread thread_;  // last: it uses the rest
};

class TopScreen : public TopCommand {};

TEST_F(TopScreen, ShowsAnswersUntilQAndLeavesTheTerminalAsItWas) {
  Screen screen(server_);
  screen.Await("\x1b[?1049h");
  screen.Await("heed 0.2.0 at " + server_.address());
  screen.Await("writer");
  screen.Await(" 100 ");  // the second answer has rates
  EXPECT_FALSE(screen.EchoesLines());
  EXPECT_EQ(screen.End("q"), kDone);
  EXPECT_TRUE(screen.IsAsBefore());
}

TEST_F(TopScreen, CtrlCEndsItAsWell) {
  Screen screen(server_);
  screen.Await("writer");
  EXPECT_EQ(screen.End("\x03"), kInterrupted);
  EXPECT_TRUE(screen.IsAsBefore());
}

// Nobody waits for a server that does not answer.
TEST_F(TopScreen, EndsWhileACallIsUnderWay) {
  server_.get_metrics = [](grpc::ServerContext& context, auto&, auto&) {
    while (!context.IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  };
  Screen screen(server_, {"--timeout=1h"});
  screen.Await("q quits");
  EXPECT_EQ(screen.End("q"), kDone);
  EXPECT_TRUE(screen.IsAsBefore());
}

TEST_F(TopScreen, KeysAreFollowed) {
  Screen screen(server_, {"--sort=state"});
  screen.Await("STATE↑");
  screen.Type("g");
  screen.Await("GEN/S↓");
  screen.Type("r");
  screen.Await("GEN/S↑");
  screen.Type("\x1b[C");
  screen.Await("TTFT50↓");
  screen.Type("h");
  screen.Await("up and down scroll");
  screen.Type("hp");
  screen.Await("paused");
  screen.Type("p");
  screen.Await("q quits");
  EXPECT_EQ(screen.End("q"), kDone);
}

TEST_F(TopScreen, SaysWhyThereIsNoAnswerAndTriesAgain) {
  refused_ = {.first = 2, .last = 4};
  Screen screen(server_);
  screen.Await("writer");
  screen.Await("the server is stopping; trying again");
  screen.Await("writer");  // as it was
  screen.Await("q quits");
  screen.Await(" 100 ");
  EXPECT_EQ(screen.End("q"), kDone);
}

TEST_F(TopScreen, FollowsTheSizeOfTheWindow) {
  Screen screen(server_, {}, /*width=*/50);
  screen.Await("writer");
  screen.Await("writer");
  EXPECT_THAT(screen.all(), Not(HasSubstr("MEMORY")));
  screen.Resize(150);
  screen.Await("MEMORY");
}

TEST_F(TopScreen, EndsWhereTheTerminalHasGone) {
  Screen screen(server_);
  screen.Await("writer");
  EXPECT_EQ(screen.HangUp(), 128 + SIGHUP);
}

TEST_F(TopScreen, EndsAfterSoManyAnswers) {
  Screen screen(server_, {"--count=3"});
  EXPECT_EQ(screen.End(""), kDone);
  EXPECT_GE(calls_, 3);  // one more may be under way
  EXPECT_THAT(screen.all(), HasSubstr("writer"));
  EXPECT_TRUE(screen.IsAsBefore());
}

}  // namespace
}  // namespace heed::cli
