// Scaled dot-product attention (Vaswani et al. 2017) with the options of current checkpoints: what `full` and
// `softmax` are names of. A task is a key-value head; a run keeps that head's keys, turned already, and
// values in pages.
//
// Sinks (Xiao et al. 2023) are the first keys kept a second time, as a source of their own that a row sees as
// soon as its window has passed them, so that the pages behind the window can go.
#ifndef HEED_ENGINE_ATTENTION_DOT_PRODUCT_H_
#define HEED_ENGINE_ATTENTION_DOT_PRODUCT_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/attention/attention.h"
#include "engine/attention/distance_bias.h"
#include "engine/ops/rows.h"

namespace heed {

struct DotProductOptions {
  int heads = 1;
  int key_value_heads = 1;  // query head h reads key-value head h / (heads / key_value_heads)
  int64_t head_dim = 0;
  double scale = 1;  // scores = scale * q.k
  bool causal = false;
  std::optional<Rotary> rotary;
  std::optional<DistanceBias> bias;
  int64_t window = 0;          // the newest keys a row sees, its own included; 0 = all
  int64_t sinks = 0;           // the first keys, which stay visible beyond the window
  bool sinks_by_text = false;  // rotation and bias see a sink at its distance in the text, not in the cache
};

// Tensors: {q,k,v}.weight and, each where present, .bias.
absl::StatusOr<std::unique_ptr<Attention>> NewDotProductAttention(const AttentionSetting& setting,
                                                                  DotProductOptions options,
                                                                  const WeightScope& scope);

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_DOT_PRODUCT_H_
