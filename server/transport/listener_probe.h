// Whether the port still takes connections. A listener can die while the process lives: gRPC 1.51's gives up
// for ever once accept() has failed, as for want of file descriptors. Nothing inside tells; so the server
// calls itself from outside now and then.
#ifndef HEED_SERVER_TRANSPORT_LISTENER_PROBE_H_
#define HEED_SERVER_TRANSPORT_LISTENER_PROBE_H_

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "grpcpp/security/credentials.h"
#include "server/clock.h"

namespace heed {

struct ProbeOptions {
  Duration every = std::chrono::seconds(5);
  Duration patience = std::chrono::seconds(2);  // with one probe
  int failures = 2;                             // in a row, and the listener is down; one success: up again
};

// Where a client on this host finds what listens on `address` (HOST:PORT, unix:PATH) and has got `port`.
std::string DialedAddress(const std::string& address, int port);

// True if a health check is answered there, over a connection of its own. Blocks, for `patience` at most.
bool AnswersAt(
    const std::string& dialed, Duration patience, std::stop_token stop,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials = grpc::InsecureChannelCredentials());

// A thread that probes.
class ListenerProbe {
 public:
  // `answers` is one probe, `changed` is told of each change; both on the thread. The listener is up at
  // first.
  ListenerProbe(const ProbeOptions& options, std::function<bool(std::stop_token)> answers,
                std::function<void(bool up)> changed);

 private:
  void Loop(std::stop_token stop);
  void Count(bool answered);

  const ProbeOptions options_;
  const std::function<bool(std::stop_token)> answers_;
  const std::function<void(bool up)> changed_;
  int failures_ = 0;  // in a row; this and the next: the thread's
  bool up_ = true;
  std::jthread thread_;  // last: uses the rest
};

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_LISTENER_PROBE_H_
