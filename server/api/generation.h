// What a model's folder says of how it generates, as messages.
#ifndef HEED_SERVER_API_GENERATION_H_
#define HEED_SERVER_API_GENERATION_H_

#include "heed/v1/inference.pb.h"
#include "heed/v1/models.pb.h"
#include "server/registry.h"

namespace heed {

// What Generate does where a request says nothing. The seed is open: each request draws one.
v1::SamplingOptions DefaultSampling(const ServedModel& model);
// What DescribeModel tells of a model that generates: this, and what else its folder says. The default
// max_tokens is that after a prompt of one token; or what the model's length leaves.
void AddGeneration(const ServedModel& model, v1::ModelDescription* out);

}  // namespace heed

#endif  // HEED_SERVER_API_GENERATION_H_
