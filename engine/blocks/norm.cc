#include "engine/blocks/norm.h"

#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {

absl::StatusOr<Norm> Norm::Load(const WeightScope& scope, int64_t width, const NormOptions& options) {
  Norm norm;
  norm.type_ = options.type;
  norm.eps_ = options.eps;
  norm.weight_.assign(width, 1.0f);
  if (options.weight) {
    ASSIGN_OR_RETURN(norm.weight_, scope.Floats("weight", {width}));
    for (float& weight : norm.weight_) weight += options.weight_offset;
  }
  if (options.type == NormType::kLayer && options.bias) {
    ASSIGN_OR_RETURN(norm.bias_, scope.Floats("bias", {width}));
  }
  return norm;
}

void Norm::Apply(Matrix<const float> x, const Rows& y) const {
  if (type_ == NormType::kLayer) {
    LayerNorm(x, weight_.data(), bias_.empty() ? nullptr : bias_.data(), eps_, y);
  } else {
    RmsNorm(x, weight_.data(), eps_, y);
  }
}

}  // namespace heed
