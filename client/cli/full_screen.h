// A terminal as one page that is drawn over and over, with each key sent at once (xterm's alternate screen,
// as every terminal of today has it). What was on it before comes back at the end.
#ifndef HEED_CLIENT_CLI_FULL_SCREEN_H_
#define HEED_CLIENT_CLI_FULL_SCREEN_H_

#include <termios.h>

#include <optional>
#include <string>
#include <string_view>

#include "client/cli/dashboard.h"

namespace heed::cli {

// One thread.
class FullScreen {
 public:
  // The descriptors of a terminal: keys come from `in`. Keys typed before are dropped.
  FullScreen(int in, int out);
  ~FullScreen();  // the terminal is as it was
  FullScreen(const FullScreen&) = delete;

  FrameSize size() const;         // now; 80 x 24 of a terminal that does not know
  bool Show(const Frame& frame);  // false: the terminal has gone

  // Waits for keys, if none were typed; their bytes. Empty: the terminal has gone.
  std::string Typed();

 private:
  bool Write(std::string_view bytes);

  const int in_, out_;
  std::optional<termios> before_;  // empty: it takes no modes
};

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_FULL_SCREEN_H_
