// The service's edge. Every call of every method passes here, in and out: it is counted, refused when the
// server stops or has too many, and given the threads it may use. gRPC's own threads do no work: a reaction
// only hands on.
#ifndef HEED_SERVER_SERVICES_EDGE_H_
#define HEED_SERVER_SERVICES_EDGE_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "heed/v1/config.pb.h"
#include "server/clock.h"
#include "server/services/metrics.h"
#include "server/services/workers.h"

namespace heed {

class StreamCall;

struct Method {
  std::string_view service;  // "heed.v1.Inference"
  std::string_view name;     // "Classify"
  bool health = false;       // answered always: it says how the server is, and keeps nobody from stopping
};

// Thread-safe.
class Edge {
 public:
  Edge(Metrics* metrics, const Clock* clock, const v1::ServerConfig& config);

  // A call begins, and ends: each Enter() is followed by one Leave(), also when it refused. UNAVAILABLE when
  // closed, RESOURCE_EXHAUSTED when there are too many.
  absl::Status Enter(const Method& method);
  void Leave(const Method& method, const absl::Status& status);

  void Close();  // from here on, calls are refused; those inside go on
  // Until all work inside has left; until health calls have, too. Or until the time.
  void WaitUntilDone(Time until);
  void WaitUntilEmpty(Time until);
  int64_t inside() const;  // without health calls

  // Streams that may stall. Sweep() ends those whose client has not taken a message for `stall_seconds`.
  void Track(std::weak_ptr<StreamCall> stream);
  void Sweep();

  Metrics& metrics() { return *metrics_; }
  const Clock& clock() const { return *clock_; }
  const v1::LimitsConfig& limits() const { return config_.limits(); }
  Duration longest_call() const;
  Workers& intake() { return intake_; }    // reads requests and tokenises
  Workers& answers() { return answers_; }  // writes what schedulers' threads have made

 private:
  Metrics* const metrics_;
  const Clock* const clock_;
  const v1::ServerConfig config_;
  mutable std::mutex mutex_;  // guards the next five
  std::condition_variable left_;
  int64_t inside_ = 0;
  int64_t asking_ = 0;  // calls for health
  bool closed_ = false;
  std::vector<std::weak_ptr<StreamCall>> streams_;
  Workers intake_, answers_;  // last: their tasks use the rest
};

}  // namespace heed

#endif  // HEED_SERVER_SERVICES_EDGE_H_
