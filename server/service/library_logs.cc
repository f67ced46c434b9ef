#include "server/service/library_logs.h"

#include <string_view>

#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "server/observation/log.h"

namespace heed {
namespace {

void LogOfGrpc(gpr_log_func_args* args) {
  static LogLimit limit;
  if (args->severity != GPR_LOG_SEVERITY_ERROR || !limit.Lets()) return;
  const std::string_view path = args->file;
  LogError("grpc", {{"file", path.substr(path.rfind('/') + 1)}, {"line", args->line}});
}

}  // namespace

void TameLibraryLogs() {
  gpr_set_log_function(LogOfGrpc);
  google::protobuf::SetLogHandler(nullptr);
}

}  // namespace heed
