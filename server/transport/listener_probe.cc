#include "server/transport/listener_probe.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "engine/base/status.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "server/transport/monotonic.h"

namespace heed {
namespace {

// One that shares no connection with another, and goes straight there.
std::shared_ptr<grpc::Channel> NewConnection(const std::string& dialed,
                                             const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel(dialed, credentials, arguments);
}

void Wait(Duration time, std::stop_token stop) {
  std::mutex none;
  std::condition_variable_any stopped;
  std::unique_lock lock(none);
  stopped.wait_for(lock, stop, time, [&] { return stop.stop_requested(); });
}

}  // namespace

std::string DialedAddress(const std::string& address, int port) {
  if (address.starts_with("unix:")) return address;
  const std::string host = address.substr(0, address.rfind(':'));
  if (host == "0.0.0.0") return Cat("127.0.0.1:", port);
  if (host == "[::]") return Cat("[::1]:", port);
  return Cat(host, ":", port);
}

bool AnswersAt(const std::string& dialed, Duration patience, std::stop_token stop,
               const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  const auto stub = grpc::health::v1::Health::NewStub(NewConnection(dialed, credentials));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(FromNow(patience));
  const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
  grpc::health::v1::HealthCheckResponse response;
  return stub->Check(&context, {}, &response).ok();
}

ListenerProbe::ListenerProbe(const ProbeOptions& options, std::function<bool(std::stop_token)> answers,
                             std::function<void(bool up)> changed)
    : options_(options),
      answers_(std::move(answers)),
      changed_(std::move(changed)),
      thread_([this](std::stop_token stop) { Loop(stop); }) {}

void ListenerProbe::Loop(std::stop_token stop) {
  while (true) {
    Wait(options_.every, stop);
    if (stop.stop_requested()) return;
    const bool answered = answers_(stop);
    if (!stop.stop_requested()) Count(answered);
  }
}

void ListenerProbe::Count(bool answered) {
  failures_ = answered ? 0 : failures_ + 1;
  const bool up = answered || (up_ && failures_ < options_.failures);
  if (std::exchange(up_, up) != up) changed_(up);
}

}  // namespace heed
