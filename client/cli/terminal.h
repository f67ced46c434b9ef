// Where a command reads and writes, so that a test can be the terminal; and how a command ends.
#ifndef HEED_CLIENT_CLI_TERMINAL_H_
#define HEED_CLIENT_CLI_TERMINAL_H_

#include <cstdint>
#include <functional>
#include <istream>
#include <ostream>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace heed {

inline constexpr int kDone = 0;           // exit statuses
inline constexpr int kFailed = 1;         // a call, a file, or one input of many
inline constexpr int kUsage = 2;          // the command line itself is wrong
inline constexpr int kInterrupted = 130;  // Ctrl-C, as shells say it

// Answers go to `out`, everything else to `err`.
struct Terminal {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool in_is_screen = false;  // a person types, reads answers, reads messages
  bool out_is_screen = false;
  bool err_is_screen = false;
  // From this call on Ctrl-C asks the token that it gives to stop, and only a second Ctrl-C ends the process.
  std::function<std::stop_token()> catch_interrupt = {};
  std::stop_token interrupted = {};  // that token, once a command has asked for it
};

// Says on `err` what went wrong, and gives the exit status for it.
int Fail(Terminal& terminal, const absl::Status& status);  // here: a file, a folder
int FailUsage(Terminal& terminal, std::string_view command, const absl::Status& status);
int FailCall(Terminal& terminal, const absl::Status& status);  // a call: with its code, and what may help

// The exit status of a command that has written all it had: kFailed if `out` has not taken it (a full disk).
int Finish(Terminal& terminal, int status);

// A line "N inputs, M a second" on `err` that is written over and over, where a person sees it and answers go
// elsewhere.
class Progress {
 public:
  Progress(Terminal& terminal, std::string_view unit);
  ~Progress();  // wipes the line
  void Add(int64_t count);

 private:
  Terminal& terminal_;
  std::string unit_;
  int64_t count_ = 0;
  int64_t begin_nanos_;
};

// A message as one line of JSON, with its fields' own names, and those that are 0 or empty too.
std::string ToJson(const google::protobuf::Message& message);

// At most `limit` characters of the text, what a terminal would obey (control characters) as spaces.
std::string OneLine(std::string_view utf8, int64_t limit = 100);

// A token's bytes in quotes, readable: what a terminal would obey, and what is no whole character, escaped.
std::string Quoted(std::string_view bytes);

}  // namespace heed

#endif  // HEED_CLIENT_CLI_TERMINAL_H_
