// The products of a dense feed-forward, for those that are made of several.
#ifndef HEED_ENGINE_BLOCKS_DENSE_H_
#define HEED_ENGINE_BLOCKS_DENSE_H_

#include "absl/status/statusor.h"
#include "engine/blocks/feed_forward.h"

namespace heed {

struct DenseProducts {
  // scope/{up, gate (if gated), down}.{weight, bias where present}. intermediate_size must be set.
  static absl::StatusOr<DenseProducts> Load(const FeedForwardSetting& setting, const WeightScope& scope);

  int64_t bytes() const { return up.bytes() + down.bytes(); }
  double multiply_adds() const;  // a row

  PackedWeights up, down;  // up: with its gate
};

// What they need of the configuration; where it is missing, the fields fail.
void RequireHidden(const FeedForwardSetting& setting, JsonFields& fields);

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_DENSE_H_
