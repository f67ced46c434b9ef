// The server: gRPC and metrics on their ports, models behind them, from the first connection to the last
// answer.
//
//   heed serve = ReadConfig(), flags over it, RunServer().
#ifndef HEED_SERVER_SERVICE_SERVER_H_
#define HEED_SERVER_SERVICE_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "heed/config/v1/config.pb.h"
#include "server/clock.h"
#include "server/registry.h"
#include "server/transport/listener_probe.h"

namespace heed {

// `heed serve`: checks the config, serves, prints "listening on HOST:PORT" and "metrics on HOST:PORT" to
// stdout when all models are ready, and returns after SIGTERM or SIGINT, when what was admitted has been
// answered. OK then: exit status 0. To be called from the main thread before it starts others. A signal while
// models load ends the process at once, with exit status 0.
absl::Status RunServer(const config::v1::ServerConfig& config);

// `heed serve --check`: the config, what it names and each model's files, nothing served. One line a model;
// the first error, if any.
absl::StatusOr<std::string> CheckServer(const config::v1::ServerConfig& config);

// Started by Listen() and Load(), ended by Drain(). Listen() and Load(): one thread at a time; the others
// from any.
class Server {
 public:
  // The ports are open from here on: health says NOT_SERVING, models are LOADING, requests for them are
  // refused with UNAVAILABLE. `load` makes a model of its config: tests give their own, and their
  // own patience with the listener.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(const config::v1::ServerConfig& config,
                                                        ModelLoader load = LoadFromFolder,
                                                        const ProbeOptions& probing = {});
  // Ends what is left at once, also while another thread drains.
  ~Server();

  // Loads all models, one after another, then health says SERVING. With `strict`, the first that fails is the
  // answer.
  absl::Status Load();

  // Ends the service as ShutdownConfig says; returns when the last call has ended.
  void Drain();
  // A drain that goes on ends its delay and its grace now.
  void HurryDrain();

  int port() const;
  int metrics_port() const;  // 0: none
  int64_t beats() const;     // of its pulse, answered by gRPC

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace heed

#endif  // HEED_SERVER_SERVICE_SERVER_H_
