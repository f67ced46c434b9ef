// Ctrl-C as a stop token, so that a call can be cancelled and a line ended before the process goes.
#ifndef HEED_CLIENT_CLI_INTERRUPT_H_
#define HEED_CLIENT_CLI_INTERRUPT_H_

#include <atomic>
#include <stop_token>
#include <thread>

namespace heed::cli {

// While it lives SIGINT asks the token to stop; a second one ends the process at once. Threads must be
// started after it, so that they leave the signal to it. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  std::stop_token token() const { return source_.get_token(); }

 private:
  void Watch();
  std::stop_source source_;
  std::atomic<bool> ending_ = false;
  std::thread watcher_;
};

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_INTERRUPT_H_
