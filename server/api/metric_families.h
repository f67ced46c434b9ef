// What GetMetrics answers.
#ifndef HEED_SERVER_API_METRIC_FAMILIES_H_
#define HEED_SERVER_API_METRIC_FAMILIES_H_

#include "absl/status/statusor.h"
#include "heed/v1/server.pb.h"
#include "server/api/context.h"
#include "server/tokens.h"

namespace heed {

// INVALID_ARGUMENT for prefixes that are too many, too long or empty, and for an answer that would be larger
// than a message may be. Of models that `rights` (null: all) do not have nothing is told.
absl::StatusOr<v1::GetMetricsResponse> GetMetrics(const v1::GetMetricsRequest& request, const ApiContext& api,
                                                  const Rights* rights);

}  // namespace heed

#endif  // HEED_SERVER_API_METRIC_FAMILIES_H_
