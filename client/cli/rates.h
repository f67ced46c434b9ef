// What a server did between two answers of GetMetrics, and how it is at the second: all that `heed top`
// shows, as numbers.
#ifndef HEED_CLIENT_CLI_RATES_H_
#define HEED_CLIENT_CLI_RATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/v1/server.pb.h"

namespace heed::cli {

// Of the time between the answers. Empty: there is none, or nothing was observed in it.
using Figure = std::optional<double>;

struct ModelActivity {
  std::string name, version, state;  // state: ready, loading, failed
  double running = 0, waiting = 0;   // inputs
  Figure requests, errors;           // a second: inputs that have ended; those of them that were not answered
  Figure prompt_tokens, generated_tokens;   // a second
  Figure first_token_p50, first_token_p95;  // seconds, from an input's submission
  Figure latency_p50, latency_p95;          // seconds, from a request's arrival, of inputs that were answered
  Figure queue_p95;                         // seconds
  double state_bytes = 0, state_limit_bytes = 0;
};

struct ServerActivity {
  std::string version;
  double uptime_seconds = 0;
  Figure cpus;  // that were busy for it
  double available_cpus = 0;
  double resident_bytes = 0, available_bytes = 0;  // of memory
  double state_bytes = 0, state_limit_bytes = 0;   // of all models
  double calls = 0, streams = 0;  // open, without that which asks; the calls of Generate among them
  std::vector<ModelActivity> models;
};

// The families that Between() reads: what to ask GetMetrics for.
v1::GetMetricsRequest ActivityRequest();

// Figures are empty where `before` is nullptr, and where it is of another run of the server: then its
// counters have begun anew. Families that are missing count as 0.
ServerActivity Between(const v1::GetMetricsResponse* before, const v1::GetMetricsResponse& now);

// The value below which a share of the observations lies, 0 to 1, as Prometheus's histogram_quantile()
// estimates it: evenly spread within their bucket, and at most the last finite bound. Each bucket is an upper
// bound, ascending, and how many observations it has by itself. Empty without observations.
struct CountedBucket {
  double upper_bound = 0, count = 0;
};
Figure Quantile(double share, const std::vector<CountedBucket>& buckets);

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_RATES_H_
