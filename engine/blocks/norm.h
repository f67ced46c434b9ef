// The norm of a sublayer or of a whole stack, and where it stands.
#ifndef HEED_ENGINE_BLOCKS_NORM_H_
#define HEED_ENGINE_BLOCKS_NORM_H_

#include <vector>

#include "absl/status/statusor.h"
#include "engine/tensor/tensor.h"
#include "engine/weights/weights.h"

namespace heed {

// kPre: x + f(norm(x)) (Xiong et al. 2020); kPost: norm(x + f(x)) (Vaswani et al. 2017); kResPost: x +
// norm(f(x)) (Liu et al. 2022, Swin V2); kSandwich: x + norm_post(f(norm(x))) (Ding et al. 2021, CogView);
// kNormed: y + f(y) of y = norm(x) (BLOOM's apply_residual_connection_post_layernorm, Le Scao et al. 2022);
// kNone: x + f(x).
enum class NormPlacement { kPre, kPost, kResPost, kSandwich, kNormed, kNone };

// Whether a sublayer reads the norm of the residual stream.
constexpr bool NormsInput(NormPlacement placement) {
  return placement == NormPlacement::kPre || placement == NormPlacement::kSandwich;
}

enum class NormType { kLayer, kRms };

struct NormOptions {
  NormPlacement placement = NormPlacement::kPre;
  NormType type = NormType::kLayer;
  float eps = 1e-5f;        // added to the variance (mean square), inside the root
  bool weight = true;       // else 1
  bool bias = true;         // of a layer norm; else 0
  float weight_offset = 0;  // added to every weight when it is loaded
};

class Norm {
 public:
  // scope/weight [width], and scope/bias [width] for a layer norm, where the options have them.
  static absl::StatusOr<Norm> Load(const WeightScope& scope, int64_t width, const NormOptions& options);
  // y = norm(x); y may be x itself.
  void Apply(Matrix<const float> x, const Rows& y) const;
  int64_t width() const { return static_cast<int64_t>(weight_.size()); }

 private:
  NormType type_ = NormType::kLayer;
  float eps_ = 0;
  std::vector<float> weight_;
  std::vector<float> bias_;  // empty: none
};

}  // namespace heed

#endif  // HEED_ENGINE_BLOCKS_NORM_H_
