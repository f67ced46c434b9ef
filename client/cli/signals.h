// Signals as something to read, so that a program that waits for several things meets them where it waits and
// can put its terminal in order before it ends.
#ifndef HEED_CLIENT_CLI_SIGNALS_H_
#define HEED_CLIENT_CLI_SIGNALS_H_

#include <signal.h>

#include <initializer_list>

namespace heed::cli {

// While it lives these signals do nothing else. Threads must be started after it, so that they leave the
// signals to it. One thread.
class Signals {
 public:
  explicit Signals(std::initializer_list<int> signals);
  ~Signals();
  Signals(const Signals&) = delete;

  int descriptor() const { return descriptor_; }  // readable when there is one
  int Next();                                     // 0: there is none

 private:
  sigset_t before_;
  int descriptor_;
};

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_SIGNALS_H_
