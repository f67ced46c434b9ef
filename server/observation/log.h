// The server's log: one line of JSON an event, on stderr. Events and fields are ours: no text of a client is
// ever in them but a request's id, whose form is checked, and whatever is not plain ASCII is escaped. To log
// is to put a line in a queue: nobody waits for who reads stderr, and what does not fit is dropped and
// counted.
#ifndef HEED_SERVER_OBSERVATION_LOG_H_
#define HEED_SERVER_OBSERVATION_LOG_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "nlohmann/json.hpp"
#include "server/clock.h"

namespace heed {

using LogFields = nlohmann::ordered_json;

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// From here on, what is less severe is not printed, in the whole process. At first: kInfo. Any thread.
void SetLogLevel(LogLevel least);

// LogInfo("model loaded", {{"model", name}, {"seconds", 1.5}});
// {"time":"2026-01-31T12:00:00.123Z","severity":"info","event":"model
// loaded","model":"polarity","seconds":1.5}
//
// Any thread; they neither block nor throw. What waits at the program's end is written, if stderr takes it
// within a second.
void LogDebug(std::string_view event, const LogFields& fields = LogFields::object());
void LogInfo(std::string_view event, const LogFields& fields = LogFields::object());
void LogWarning(std::string_view event, const LogFields& fields = LogFields::object());
void LogError(std::string_view event, const LogFields& fields = LogFields::object());
// What was asked for by name: printed as info, whatever the level.
void LogAlways(std::string_view event, const LogFields& fields);

// Until all that was logged is written, `most` at most: before _Exit(), which waits for nothing. False if
// something is left.
bool FlushLog(Duration most = std::chrono::seconds(1));

// Lines that were never written: there was no room for them, or stderr is broken.
int64_t LogLinesDropped();

// Of what may go wrong often: lets some lines a second through. Thread-safe.
class LogLimit {
 public:
  explicit LogLimit(int lines_a_second = 10, const Clock* clock = &Clock::Real())
      : most_(lines_a_second), clock_(clock) {}

  // Whether this line may be logged. What may not is counted by LogLinesDropped().
  bool Lets();

 private:
  const int most_;
  const Clock* const clock_;
  std::mutex mutex_;  // guards the rest
  Time since_{};
  int lines_ = 0;
};

// Lines on their way to a descriptor, with a thread that waits for it. Thread-safe.
class LogWriter {
 public:
  // More than `most_bytes` do not wait.
  explicit LogWriter(int descriptor, size_t most_bytes = 1 << 20);
  ~LogWriter();  // when the descriptor has taken what waits

  void Write(std::string line);  // with its newline
  void Drop();                   // counts a line that was not to be had
  bool Flush(Duration most);
  int64_t dropped() const { return dropped_; }

 private:
  void Loop();
  bool WriteNow(std::string_view line);
  void TellOfDropped();

  const int descriptor_;
  const size_t most_bytes_;
  std::atomic<int64_t> dropped_{0};
  std::mutex mutex_;  // guards the next three
  std::condition_variable changed_;
  std::deque<std::string> lines_;  // the first is being written
  size_t bytes_ = 0;               // of them
  bool stopping_ = false;
  int64_t told_ = 0;     // of those dropped; the thread's
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace heed

#endif  // HEED_SERVER_OBSERVATION_LOG_H_
