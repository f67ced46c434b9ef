#include "server/services/log.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"

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

// True for the first ten calls of each second.
bool MayLog() {
  static std::atomic<int64_t> second{0};
  static std::atomic<int> lines{0};
  const int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
  if (second.exchange(now) != now) lines = 0;
  return lines.fetch_add(1) < 10;
}

void LogOfGrpc(gpr_log_func_args* args) {
  if (args->severity != GPR_LOG_SEVERITY_ERROR || !MayLog()) return;
  const std::string_view path = args->file;
  LogError("grpc", {{"file", path.substr(path.rfind('/') + 1)}, {"line", args->line}});
}

}  // namespace

void LogInfo(std::string_view event, const LogFields& fields) { Write("info", event, fields); }
void LogError(std::string_view event, const LogFields& fields) { Write("error", event, fields); }

void TameLibraryLogs() {
  gpr_set_log_function(LogOfGrpc);
  google::protobuf::SetLogHandler(nullptr);
}

}  // namespace heed
