#include "server/service/library_logs.h"

#include <atomic>
#include <chrono>
#include <string_view>

#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "server/observation/log.h"

namespace heed {
namespace {

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

void TameLibraryLogs() {
  gpr_set_log_function(LogOfGrpc);
  google::protobuf::SetLogHandler(nullptr);
}

}  // namespace heed
