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

namespace heed::cli {

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
  int in_descriptor = 0, out_descriptor = 1;  // of `in` and `out`, where these are screens
  // From this call on Ctrl-C asks the token that it gives to stop, and only a second Ctrl-C ends the process.
  std::function<std::stop_token()> catch_interrupt = {};
  std::stop_token interrupted = {};  // that token, once a command has asked for it
};

// Says on `err` what went wrong here (a file, a flag), and gives the exit status for it.
int Fail(Terminal& terminal, const absl::Status& status);
int FailUsage(Terminal& terminal, std::string_view command, const absl::Status& status);

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

// Text that others wrote, so that no terminal obeys it: what would move the cursor, change colours or turn
// the direction of writing stands escaped, as \x1b or \u202e; what is no UTF-8 is U+FFFD. Whatever a server
// has said goes through one of these on its way to a screen.
std::string ForScreen(std::string_view text);                     // line ends and tabs stay
std::string OneLine(std::string_view text, int64_t limit = 100);  // at most so many characters; no line ends
std::string Quoted(std::string_view bytes);  // a token, exactly: what is no UTF-8 as \xff

// A message as one line of JSON, as harmless, with its fields' own names, and those that are 0 or empty too.
std::string ToJson(const google::protobuf::Message& message);

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_TERMINAL_H_
