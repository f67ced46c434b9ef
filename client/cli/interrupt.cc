#include "client/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "client/cli/terminal.h"

namespace heed::cli {
namespace {

sigset_t JustInterrupt() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t signals = JustInterrupt();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  watcher_ = std::thread([this] { Watch(); });
}

Interrupt::~Interrupt() {
  ending_ = true;
  pthread_kill(watcher_.native_handle(), SIGINT);  // wakes it, whatever it waits for
  watcher_.join();
  const sigset_t signals = JustInterrupt();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void Interrupt::Watch() {
  const sigset_t signals = JustInterrupt();
  for (int signal = 0; sigwait(&signals, &signal) == 0 && !ending_;) {
    if (!source_.request_stop()) _exit(kInterrupted);
  }
}

}  // namespace heed::cli
