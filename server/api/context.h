// What every service of the API is given.
#ifndef HEED_SERVER_API_CONTEXT_H_
#define HEED_SERVER_API_CONTEXT_H_

#include "heed/config/v1/config.pb.h"
#include "server/edge.h"
#include "server/observation/metrics.h"
#include "server/registry.h"

namespace heed {

// All outlive all calls.
struct ApiContext {
  Edge* edge;
  const Registry* registry;
  Metrics* metrics;
  const config::v1::ServerConfig* config;

  const config::v1::LimitsConfig& limits() const { return config->limits(); }
};

}  // namespace heed

#endif  // HEED_SERVER_API_CONTEXT_H_
