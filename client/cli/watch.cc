#include "client/cli/watch.h"

#include <poll.h>
#include <signal.h>

#include <iterator>
#include <optional>
#include <utility>

#include "client/cli/errors.h"
#include "client/cli/figures.h"
#include "client/cli/full_screen.h"
#include "client/cli/keys.h"
#include "client/cli/rates.h"
#include "client/cli/sampler.h"
#include "client/cli/signals.h"
#include "engine/base/status.h"

namespace heed::cli {
namespace {

int EndedBy(int signal) { return 128 + signal; }

class Watcher {
 public:
  // The signals are those of Watch().
  Watcher(const ServerFlags& server, const TopOptions& options, const Terminal& terminal, Signals* signals)
      : signals_(*signals),
        server_(server),
        options_(options),
        view_(options.view),
        in_(terminal.in_descriptor),
        screen_(terminal.in_descriptor, terminal.out_descriptor),
        sampler_(server, options.interval) {}

  int Run() {
    bool there = Draw();
    while (there && !ended_) {
      Wait();
      there = Draw();
    }
    return ended_.value_or(EndedBy(SIGHUP));
  }

 private:
  // Until something is there that may change what is shown.
  void Wait() {
    pollfd any[] = {{in_, POLLIN, 0}, {signals_.descriptor(), POLLIN, 0}, {sampler_.descriptor(), POLLIN, 0}};
    if (poll(any, std::size(any), /*timeout=*/-1) <= 0) return;
    if (any[1].revents != 0) TakeSignal();
    if (any[2].revents != 0) TakeAnswer();
    if (any[0].revents != 0) TakeKeys();
  }

  void TakeSignal() {
    const int signal = signals_.Next();
    if (signal != 0 && signal != SIGWINCH) ended_ = EndedBy(signal);
  }

  void TakeKeys() {
    const std::string typed = screen_.Typed();
    if (typed.empty()) ended_ = EndedBy(SIGHUP);
    const int models = activity_ ? static_cast<int>(activity_->models.size()) : 0;
    for (const Key key : keys_.Take(typed)) {
      if (!Press(key, models, &view_)) ended_ = key == kCtrlC ? kInterrupted : kDone;
    }
  }

  void TakeAnswer() {
    std::optional<Sampler::Answer> answer = sampler_.Take();
    if (!answer) return;
    error_ = answer->ok() ? "" : Cat(ErrorText(answer->status()), "; trying again");
    if (!answer->ok()) return;
    const v1::GetMetricsResponse before = std::exchange(before_, **std::move(answer));
    if (view_.paused) return;
    activity_ = Between(activity_ ? &before : nullptr, before_);
    if (options_.count > 0 && ++shown_ == options_.count) ended_ = kDone;
  }

  bool Draw() {
    const std::string note = !error_.empty() ? error_
                             : view_.paused  ? "paused: p goes on"
                                             : "q quits, h helps";
    const ServerActivity& activity = activity_ ? *activity_ : ServerActivity();
    return screen_.Show(
        Layout(activity, view_, Heading(activity, server_, options_.interval), note, screen_.size()));
  }

  Signals& signals_;
  const ServerFlags& server_;
  const TopOptions options_;
  View view_;
  const int in_;
  FullScreen screen_;
  Sampler sampler_;
  KeyReader keys_;
  v1::GetMetricsResponse before_;           // the last answer
  std::optional<ServerActivity> activity_;  // as it is shown; empty: there was no answer yet
  std::string error_;                       // why there is none now
  int32_t shown_ = 0;
  std::optional<int> ended_;  // the exit status
};

}  // namespace

int Watch(const ServerFlags& server, const TopOptions& options, Terminal& terminal) {
  Signals signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH});  // before the first of gRPC's threads
  if (const absl::Status good = server.Connect().status(); !good.ok()) return Fail(terminal, good);
  return Watcher(server, options, terminal, &signals).Run();
}

std::string Heading(const ServerActivity& activity, const ServerFlags& server, absl::Duration interval) {
  const std::string every = Cat(", every ", absl::FormatDuration(interval));
  if (activity.version.empty()) return Cat("heed at ", server.address, every);
  return Cat("heed ", activity.version, " at ", server.address, ", up ", UptimeText(activity.uptime_seconds),
             every);
}

}  // namespace heed::cli
