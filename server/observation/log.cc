#include "server/observation/log.h"

#include <unistd.h>

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace heed {
namespace {

void Write(std::string_view severity, std::string_view event, const LogFields& fields) {
  LogFields line = {{"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone())},
                    {"severity", severity},
                    {"event", event}};
  line.update(fields);
  const std::string text =
      line.dump(-1, ' ', /*ensure_ascii=*/true, LogFields::error_handler_t::replace) + "\n";
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text.data(), text.size());  // one call: lines do not mix
}

}  // namespace

void LogInfo(std::string_view event, const LogFields& fields) { Write("info", event, fields); }
void LogError(std::string_view event, const LogFields& fields) { Write("error", event, fields); }

}  // namespace heed
