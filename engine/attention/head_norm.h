// A norm of queries and keys before their scores ("qk_norm", Henry et al. 2020): of the numbers of each head
// by themselves, or of those of all heads together.
#ifndef HEED_ENGINE_ATTENTION_HEAD_NORM_H_
#define HEED_ENGINE_ATTENTION_HEAD_NORM_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/attention/attention.h"
#include "engine/base/json.h"
#include "engine/tensor/tensor.h"
#include "engine/weights/weights.h"

namespace heed {

// Const and thread-safe.
class HeadNorm {
 public:
  struct Options {
    bool layer = false;  // Ba et al. 2016; else RMS (Zhang and Sennrich 2019)
    bool weight = true, bias = false;
    float eps = 1e-5f, weight_offset = 0;
  };
  // Of heads * head_dim numbers side by side, `parts` norms: 1, or one of each head. Tensors:
  // scope/NAME.{weight,bias} of the numbers of one norm or, where each has its own, [parts, those].
  struct Shape {
    int64_t columns = 0, parts = 1;
    bool own_weights = false;
  };
  static absl::StatusOr<HeadNorm> Load(const WeightScope& scope, const Shape& shape, const Options& options);
  // In place; each norm's numbers in a row by themselves. f32 or bf16.
  void Apply(const Rows& x) const;

 private:
  bool layer_ = false;
  float eps_ = 0;
  int64_t width_ = 0;                 // of one norm
  std::vector<float> weight_, bias_;  // of one norm, or of all; no bias: none
};

// The option "qk_norm" of heads of these sizes.
struct HeadSizes {
  int heads = 1, key_value_heads = 1;
  int64_t head_dim = 0;
  bool turned = false;  // they have rope
};
struct QueryKeyNorms {
  HeadNorm q, k;
  bool after_rope = false;
};
absl::StatusOr<std::optional<QueryKeyNorms>> ReadQueryKeyNorms(JsonFields& fields,
                                                               const AttentionSetting& setting,
                                                               const HeadSizes& sizes,
                                                               const WeightScope& scope);

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_HEAD_NORM_H_
