// What every service of the API is given.
#ifndef HEED_SERVER_API_CONTEXT_H_
#define HEED_SERVER_API_CONTEXT_H_

#include <chrono>

#include "heed/config/v1/config.pb.h"
#include "server/edge.h"
#include "server/jobs/answer_memory.h"
#include "server/observation/metrics.h"
#include "server/observation/snapshot.h"
#include "server/registry.h"

namespace heed {

// All outlive all calls.
struct ApiContext {
  Edge* edge;
  const Registry* registry;
  Metrics* metrics;
  const Collectables* collectables;  // all that is shown of metrics
  const config::v1::ServerConfig* config;
  AnswerMemory* answer_memory;
  int threads;                                    // that compute
  std::chrono::system_clock::time_point started;  // the server
  Time began;                                     // the same on the edge's clock

  const config::v1::LimitsConfig& limits() const { return config->limits(); }
};

}  // namespace heed

#endif  // HEED_SERVER_API_CONTEXT_H_
