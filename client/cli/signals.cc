#include "client/cli/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "absl/log/check.h"

namespace heed::cli {

Signals::Signals(std::initializer_list<int> signals) {
  sigset_t caught;
  sigemptyset(&caught);
  for (const int signal : signals) sigaddset(&caught, signal);
  pthread_sigmask(SIG_BLOCK, &caught, &before_);
  descriptor_ = signalfd(-1, &caught, SFD_NONBLOCK | SFD_CLOEXEC);
  CHECK(descriptor_ >= 0) << "signalfd";
}

Signals::~Signals() {
  close(descriptor_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int Signals::Next() {
  signalfd_siginfo info{};
  return read(descriptor_, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace heed::cli
