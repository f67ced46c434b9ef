// heed top: what a server does, live. At a terminal a page with keys, elsewhere lines, for scripts and logs.
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/call.h"
#include "client/cli/columns.h"
#include "client/cli/command.h"
#include "client/cli/dashboard.h"
#include "client/cli/rates.h"
#include "client/cli/watch.h"
#include "engine/base/status.h"

namespace heed::cli {
namespace {

struct TopFlags {
  explicit TopFlags(Arguments& arguments);
  TopOptions options;
};

TopFlags::TopFlags(Arguments& arguments) {
  arguments.Flag("interval", &options.interval, "the time that rates and latencies are of, 0.1s to 1h",
                 {0.1, 3600});
  arguments.Flag("count", &options.count, "how often to show it before the end; 0: until you end it",
                 {0, 1e9});
  Arguments::Words<size_t> words;
  for (size_t i = 0; i < Columns().size(); ++i) words.emplace_back(Columns()[i].name, i);
  arguments.Choice("sort", &options.view.sort,
                   "by which column: names from A on, numbers from the largest on", words);
  arguments.Flag("reverse", &options.view.reversed, "sort the other way round");
}

// Where the screen can be drawn, and keys be read.
bool HasScreen(const Terminal& terminal) {
  const char* kind = std::getenv("TERM");
  return terminal.in_is_screen && terminal.out_is_screen && kind != nullptr &&
         std::string_view(kind) != "dumb";
}

// "2026-11-23T03:12:45Z heed 0.2.0 at ...", a line of the process, the titles, a line a model, an empty one.
std::string Page(const v1::GetMetricsResponse& before, const v1::GetMetricsResponse& now,
                 const ServerFlags& server, const TopOptions& options) {
  const ServerActivity activity = Between(&before, now);
  const std::string time = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  const Frame frame =
      Layout(activity, options.view, Cat(time, " ", Heading(activity, server, options.interval)), "");
  std::string page;
  for (const std::string& line : frame.lines) page += line + "\n";
  return page + "\n";
}

int PrintPages(const ServerFlags& server, const Client& client, const TopOptions& options,
               Terminal& terminal) {
  v1::GetMetricsResponse before;
  int64_t answers = 0, shown = 0;
  while (true) {
    const auto next = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(options.interval);
    absl::StatusOr<v1::GetMetricsResponse> now =
        client.GetMetrics(ActivityRequest(), server.Options(terminal));
    if (!now.ok()) return FailCall(terminal, now.status(), client);
    if (server.json) {
      terminal.out << ToJson(*now) << "\n";
    } else if (answers > 0) {
      terminal.out << Page(before, *now, server, options);
    }
    shown += server.json || answers > 0;
    if (!terminal.out.flush() || (options.count > 0 && shown == options.count))
      return Finish(terminal, kDone);
    before = *std::move(now);
    ++answers;
    std::this_thread::sleep_until(next);
  }
}

}  // namespace

int Top(Arguments& arguments, Terminal& terminal) {
  TopFlags flags(arguments);
  ServerFlags server(arguments, absl::Seconds(5));
  if (std::optional<int> ended = arguments.Parse(terminal, 0)) return *ended;
  if (!server.json && HasScreen(terminal)) return Watch(server, flags.options, terminal);
  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  return PrintPages(server, *client, flags.options, terminal);
}

}  // namespace heed::cli
