// A server as a process: signals in, lines on stdout and the exit out.
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "server/api/models.h"
#include "server/config/config.h"
#include "server/observation/log.h"
#include "server/service/access.h"
#include "server/service/library_logs.h"
#include "server/service/server.h"

namespace heed {
namespace {

// Another thread's "it is done", in a form that can be waited for together with a signal.
class Event {
 public:
  Event() : descriptor_(eventfd(0, EFD_CLOEXEC)) {}
  ~Event() { close(descriptor_); }
  void Set() { eventfd_write(descriptor_, 1); }
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

// SIGTERM and SIGINT as something to wait for, in this thread and all that it starts.
class StopSignals {
 public:
  StopSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    descriptor_ = signalfd(-1, &signals, SFD_CLOEXEC);
  }
  ~StopSignals() { close(descriptor_); }

  // Waits for a signal or the event; true if it was a signal, which is then taken.
  bool WaitOr(const Event& event) {
    pollfd waited[] = {{.fd = descriptor_, .events = POLLIN}, {.fd = event.descriptor(), .events = POLLIN}};
    while (poll(waited, 2, -1) < 0) {
    }
    if (!(waited[0].revents & POLLIN)) return false;
    signalfd_siginfo info;
    [[maybe_unused]] const ssize_t taken = read(descriptor_, &info, sizeof(info));
    LogInfo("signal", {{"number", info.ssi_signo}});
    return true;
  }

 private:
  int descriptor_ = -1;
};

std::string WithPort(const std::string& address, int port) {
  if (address.starts_with("unix:")) return address;
  return Cat(address.substr(0, address.rfind(':')), ":", port);
}

void Announce(const config::v1::ServerConfig& config, const Server& server) {
  LogInfo("serving",
          {{"address", WithPort(config.address(), server.port())}, {"models", config.models_size()}});
  std::printf("listening on %s\n", WithPort(config.address(), server.port()).c_str());
  if (server.metrics_port() > 0)
    std::printf("metrics on %s\n", WithPort(config.metrics_address(), server.metrics_port()).c_str());
  std::fflush(stdout);
}

LogLevel ToLevel(config::v1::LogLevel level) {
  switch (level) {
    case config::v1::LOG_LEVEL_DEBUG:
      return LogLevel::kDebug;
    case config::v1::LOG_LEVEL_WARNING:
      return LogLevel::kWarning;
    case config::v1::LOG_LEVEL_ERROR:
      return LogLevel::kError;
    default:
      return LogLevel::kInfo;
  }
}

absl::StatusOr<config::v1::ServerConfig> Checked(const config::v1::ServerConfig& config) {
  RETURN_IF_ERROR(CheckConfig(config));
  ASSIGN_OR_RETURN(config::v1::ServerConfig complete, WithModels(config));
  RETURN_IF_ERROR(CheckConfig(complete));  // folders' names are models' names now
  return complete;
}

}  // namespace

absl::Status RunServer(const config::v1::ServerConfig& config) {
  StopSignals signals;
  TameLibraryLogs();
  ASSIGN_OR_RETURN(const config::v1::ServerConfig complete, Checked(config));
  SetLogLevel(ToLevel(complete.log().level()));
  LogInfo("starting", {{"version", HEED_VERSION}, {"pid", getpid()}});
  ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Listen(complete));

  Event ready;
  absl::Status loaded;
  std::jthread loading([&] {
    loaded = server->Load();
    ready.Set();
  });
  if (signals.WaitOr(ready)) {
    LogInfo("stopped", {{"while", "loading"}});
    FlushLog();
    std::_Exit(EXIT_SUCCESS);  // loading cannot be interrupted, and nothing was admitted
  }
  loading.join();
  RETURN_IF_ERROR(loaded);
  Announce(complete, *server);

  const Event never;
  signals.WaitOr(never);
  Event drained;
  std::jthread draining([&] {
    server->Drain();
    drained.Set();
  });
  while (signals.WaitOr(drained)) server->HurryDrain();
  draining.join();
  LogInfo("stopped");
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckServer(const config::v1::ServerConfig& config) {
  ASSIGN_OR_RETURN(const config::v1::ServerConfig complete, Checked(config));
  RETURN_IF_ERROR(OpenAccess(complete).status());
  std::string report;
  for (const auto& model : complete.models()) {
    auto loaded = LoadFromFolder(ToSpec(model));
    if (!loaded.ok())
      return absl::Status(loaded.status().code(),
                          Cat("model '", model.name(), "': ", loaded.status().message()));
    const ModelInfo& info = loaded->model->info();
    report += Cat(model.name(), ": ", info.parameters, " parameters, ", std::string(Name(info.precision)),
                  ", answers ", absl::StrJoin(RpcsOf(*loaded), ", "), "\n");
  }
  return report;
}

}  // namespace heed
