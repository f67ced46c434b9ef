// Documents in the order of how well they answer a query, as a classifier of pairs tells it.
#ifndef HEED_SERVER_API_RERANK_H_
#define HEED_SERVER_API_RERANK_H_

#include <memory>

#include "absl/status/status.h"
#include "heed/v1/inference.pb.h"
#include "server/api/context.h"
#include "server/transport/unary_call.h"

namespace heed {

using RerankCall = UnaryCall<v1::RerankRequest, v1::RerankResponse>;

// Begins what ends the call, in the edge's intake; an error is the call's.
absl::Status Rerank(const ApiContext& api, std::shared_ptr<RerankCall> call);

}  // namespace heed

#endif  // HEED_SERVER_API_RERANK_H_
