#include "engine/attention/head_norm.h"

#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {

absl::StatusOr<HeadNorm> HeadNorm::Load(const WeightScope& scope, const Shape& shape,
                                        const Options& options) {
  HeadNorm norm;
  norm.layer_ = options.layer;
  norm.eps_ = options.eps;
  norm.width_ = shape.columns / shape.parts;
  norm.weight_.assign(norm.width_, 1.0f);
  std::vector<int64_t> tensor = {norm.width_};
  if (shape.own_weights) tensor.insert(tensor.begin(), shape.parts);
  if (options.weight) {
    ASSIGN_OR_RETURN(norm.weight_, scope.Floats("weight", tensor));
    for (float& weight : norm.weight_) weight += options.weight_offset;
  }
  if (options.bias) {
    ASSIGN_OR_RETURN(norm.bias_, scope.Floats("bias", tensor));
  }
  return norm;
}

void HeadNorm::Apply(const Rows& x) const {
  for (int64_t column = 0; column < x.cols; column += width_) {
    const int64_t own = column % std::ssize(weight_);
    const Rows numbers = x.Cols(column, width_);
    if (layer_) {
      LayerNorm(numbers, &weight_[own], bias_.empty() ? nullptr : &bias_[own], eps_);
    } else {
      RmsNorm(numbers, &weight_[own], eps_);
    }
  }
}

absl::StatusOr<std::optional<QueryKeyNorms>> ReadQueryKeyNorms(JsonFields& fields,
                                                               const AttentionSetting& setting,
                                                               const HeadSizes& sizes,
                                                               const WeightScope& scope) {
  if (!fields.Has("qk_norm")) return std::nullopt;
  JsonFields own(fields.Raw("qk_norm"), Cat(fields.where(), ".qk_norm"));
  HeadNorm::Options options{.weight_offset = setting.norm_offset};
  options.layer = own.Choice("type", {"rms", "layer"}) == "layer";
  options.eps = static_cast<float>(own.Number("eps", setting.norm_eps, 0, 1));
  options.weight = own.Bool("weight", true);
  options.bias = own.Bool("bias", false);
  const bool all = own.Choice("over", {"head", "all"}) == "all", per_head = own.Bool("per_head", false);
  QueryKeyNorms norms;
  norms.after_rope = own.Bool("after_rope", false);
  if (options.bias && !(options.layer && options.weight))
    own.Fail("bias: true; a norm of type \"layer\" that has a weight may have one");
  if (per_head && all) own.Fail("per_head: true; over \"all\" heads there is one norm");
  if (norms.after_rope && !sizes.turned) own.Fail("after_rope: true; there is no rope");
  if (norms.after_rope && (all || per_head))
    own.Fail("after_rope: true; it is served over \"head\", of one weight for all heads");
  RETURN_IF_ERROR(own.Finish());
  const auto shape = [&](int heads) {
    return HeadNorm::Shape{heads * sizes.head_dim, all ? 1 : heads, per_head};
  };
  ASSIGN_OR_RETURN(norms.q, HeadNorm::Load(scope / "q_norm", shape(sizes.heads), options));
  if (!setting.keys_lent) {
    ASSIGN_OR_RETURN(norms.k, HeadNorm::Load(scope / "k_norm", shape(sizes.key_value_heads), options));
  }
  return norms;
}

}  // namespace heed
