#include "server/observation/log.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace heed {
namespace {

// Never destroyed: threads may log to the end.
LogWriter& Stderr() {
  static LogWriter* const writer = [] {
    std::atexit([] { FlushLog(); });
    return new LogWriter(STDERR_FILENO);
  }();
  return *writer;
}

std::string Line(std::string_view severity, std::string_view event, const LogFields& fields) {
  LogFields line = {{"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone())},
                    {"severity", severity},
                    {"event", event}};
  line.update(fields);
  return line.dump(-1, ' ', /*ensure_ascii=*/true, LogFields::error_handler_t::replace) + "\n";
}

constexpr std::string_view kSeverities[] = {"debug", "info", "warning", "error"};  // by LogLevel

std::atomic<LogLevel> least_level{LogLevel::kInfo};

void Print(LogLevel level, std::string_view event, const LogFields& fields) {
  try {
    Stderr().Write(Line(kSeverities[static_cast<size_t>(level)], event, fields));
  } catch (...) {  // no memory: the last thing to fail for is a line
    Stderr().Drop();
  }
}

void Log(LogLevel level, std::string_view event, const LogFields& fields) {
  if (level >= least_level) Print(level, event, fields);
}

// A thread that takes no signals, whoever starts it: they are for the threads that wait for them.
std::jthread Deaf(auto body) {
  sigset_t all, was;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &was);
  std::jthread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &was, nullptr);
  return thread;
}

}  // namespace

void SetLogLevel(LogLevel least) { least_level = least; }
void LogDebug(std::string_view event, const LogFields& fields) { Log(LogLevel::kDebug, event, fields); }
void LogInfo(std::string_view event, const LogFields& fields) { Log(LogLevel::kInfo, event, fields); }
void LogWarning(std::string_view event, const LogFields& fields) { Log(LogLevel::kWarning, event, fields); }
void LogError(std::string_view event, const LogFields& fields) { Log(LogLevel::kError, event, fields); }
void LogAlways(std::string_view event, const LogFields& fields) { Print(LogLevel::kInfo, event, fields); }
bool FlushLog(Duration most) { return Stderr().Flush(most); }
int64_t LogLinesDropped() { return Stderr().dropped(); }

bool LogLimit::Lets() {
  std::lock_guard lock(mutex_);
  const Time now = clock_->Now();
  if (now - since_ >= std::chrono::seconds(1)) {
    since_ = now;
    lines_ = 0;
  }
  if (++lines_ <= most_) return true;
  Stderr().Drop();
  return false;
}

LogWriter::LogWriter(int descriptor, size_t most_bytes)
    : descriptor_(descriptor), most_bytes_(most_bytes), thread_(Deaf([this] { Loop(); })) {}

LogWriter::~LogWriter() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void LogWriter::Write(std::string line) {
  std::lock_guard lock(mutex_);
  if (bytes_ + line.size() > most_bytes_) return Drop();
  bytes_ += line.size();
  lines_.push_back(std::move(line));
  changed_.notify_all();
}

void LogWriter::Drop() { ++dropped_; }

bool LogWriter::Flush(Duration most) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, most, [this] { return lines_.empty(); });
}

void LogWriter::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !lines_.empty(); });
    if (lines_.empty()) return;
    const std::string& line = lines_.front();  // others only add behind it
    lock.unlock();
    WriteNow(line) ? TellOfDropped() : Drop();
    lock.lock();
    bytes_ -= lines_.front().size();
    lines_.pop_front();
    changed_.notify_all();
  }
}

void LogWriter::TellOfDropped() {
  const int64_t lines = dropped_ - told_;
  if (lines == 0) return;
  try {
    if (WriteNow(Line("error", "log lines dropped", {{"lines", lines}}))) told_ += lines;
  } catch (...) {  // no memory: with the next line
  }
}

// False if the descriptor is broken. In one call, so that lines of several processes do not mix, if the
// descriptor takes it in one.
bool LogWriter::WriteNow(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = write(descriptor_, line.data(), line.size());
    if (written >= 0) {
      line.remove_prefix(written);
    } else if (errno == EAGAIN) {
      pollfd waited{.fd = descriptor_, .events = POLLOUT, .revents = 0};
      poll(&waited, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace heed
