// "none": a layer of attention alone, without the norm that a feed-forward has. No options, no tensors.
#include "engine/base/status.h"
#include "engine/blocks/feed_forward.h"

namespace heed {

absl::StatusOr<std::unique_ptr<FeedForward>> NewNoFeedForward(const FeedForwardSetting&, JsonFields& fields,
                                                              const WeightScope&) {
  RETURN_IF_ERROR(fields.Finish());
  return nullptr;
}

}  // namespace heed
