// Keeps gRPC awake. In gRPC 1.51 each thread of the callback API that has seen nothing for a second sleeps
// for 100 ms; with all of them asleep, the first call after a pause waits that long. A call to itself twice a
// second keeps one awake.
#ifndef HEED_SERVER_TRANSPORT_PULSE_H_
#define HEED_SERVER_TRANSPORT_PULSE_H_

#include <functional>
#include <memory>

#include "grpcpp/channel.h"
#include "grpcpp/generic/generic_stub.h"

namespace heed {

inline constexpr char kPulsePath[] = "/heed.Pulse/Beat";

class Pulse {
 public:
  // `channel`: the server's own, in process.
  explicit Pulse(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {}

  // One call, to a method that nobody has: the server's answer to it (UNIMPLEMENTED) is event enough. Does
  // not wait. `ended` is told, on a thread of gRPC's, whether it was the server who answered.
  void Beat(std::function<void(bool answered)> ended);

 private:
  grpc::GenericStub stub_;
};

}  // namespace heed

#endif  // HEED_SERVER_TRANSPORT_PULSE_H_
