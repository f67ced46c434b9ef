// `heed top` at a terminal: the page drawn with each answer and each key, until a person has seen enough.
#ifndef HEED_CLIENT_CLI_WATCH_H_
#define HEED_CLIENT_CLI_WATCH_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "client/cli/call.h"
#include "client/cli/dashboard.h"
#include "client/cli/terminal.h"

namespace heed::cli {

struct TopOptions {
  absl::Duration interval = absl::Seconds(1);
  int32_t count = 0;  // answers to show before the end; 0: any number
  View view;          // at the beginning
};

// Of the screen behind the terminal's descriptors. Returns the exit status: kDone after the key q or so many
// answers, 128 and its number after a signal that ends it, as shells say it; Ctrl-C is one. The terminal is
// then as it was.
int Watch(const ServerFlags& server, const TopOptions& options, Terminal& terminal);

// "heed 0.2.0 at 127.0.0.1:8461, up 3h12m5s, every 1s"
std::string Heading(const ServerActivity& activity, const ServerFlags& server, absl::Duration interval);

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_WATCH_H_
