// Asks a server for its metrics again and again, on a thread of its own: who shows them waits for nobody.
#ifndef HEED_CLIENT_CLI_SAMPLER_H_
#define HEED_CLIENT_CLI_SAMPLER_H_

#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/call.h"

namespace heed::cli {

class Sampler {
 public:
  using Answer = absl::StatusOr<v1::GetMetricsResponse>;

  // Asks at once, and then after each interval. A server that has gone is tried again, with a connection of
  // its own each time: nobody waits for what gRPC keeps of the old one.
  Sampler(const ServerFlags& server, absl::Duration interval);
  ~Sampler();  // a call that is under way is cancelled
  Sampler(const Sampler&) = delete;

  int descriptor() const { return descriptor_; }  // readable when there is an answer
  std::optional<Answer> Take();                   // the newest, once; empty if it was taken

 private:
  void Loop(std::stop_token stop);
  Answer Ask(std::optional<Client>* client, std::stop_token stop) const;
  void Give(Answer answer);

  const ServerFlags& server_;
  const absl::Duration interval_;
  const int descriptor_;
  std::mutex mutex_;
  std::optional<Answer> answer_;  // guarded by mutex_
  std::jthread thread_;           // last: it uses the rest
};

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_SAMPLER_H_
