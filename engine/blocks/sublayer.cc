#include "engine/blocks/sublayer.h"

#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {

absl::StatusOr<Residual> Residual::Load(const WeightScope& norm_scope, int64_t width,
                                        const NormOptions& options) {
  Residual residual;
  residual.placement_ = options.placement;
  ASSIGN_OR_RETURN(residual.norm_, Norm::Load(norm_scope, width, options));
  return residual;
}

Rows Residual::Open(RowBlock& block) const {
  Rows x{DType::kF32, block.x.data, block.x.rows, block.x.cols, block.x.stride};
  Rows input = block.buffers.input.First(block.rows());
  if (placement_ != NormPlacement::kPre && input.dtype == DType::kF32) return x;
  ForRows(block, [&](int64_t first, int64_t count) {
    if (placement_ == NormPlacement::kPre) {
      norm_.Apply(block.x.Rows(first, count), input.Slice(first, count));
    } else {
      Convert(x.Slice(first, count), input.Slice(first, count));
    }
  });
  return input;
}

void Residual::Close(RowBlock& block, absl::FunctionRef<void(const Epilogue&)> f) const {
  Rows x{DType::kF32, block.x.data, block.x.rows, block.x.cols, block.x.stride};
  if (placement_ != NormPlacement::kResPost) {
    f({.out = x, .add = true});
    if (placement_ == NormPlacement::kPre) return;
    ForRows(block, [&](int64_t first, int64_t count) {
      norm_.Apply(block.x.Rows(first, count), x.Slice(first, count));
    });
    return;
  }
  Rows result = block.buffers.result.First(block.rows());
  f({.out = result});
  ForRows(block, [&](int64_t first, int64_t count) {
    Rows rows = result.Slice(first, count);
    norm_.Apply(rows.As<float>(), rows);
    Add(rows.As<float>(), block.x.Rows(first, count));
  });
}

absl::StatusOr<AttentionSublayer> AttentionSublayer::Load(std::unique_ptr<Attention> attention,
                                                          const WeightScope& scope,
                                                          const WeightScope& norm_scope, int64_t width,
                                                          const NormOptions& norm, Precision precision) {
  AttentionSublayer sublayer;
  ASSIGN_OR_RETURN(sublayer.residual_, Residual::Load(norm_scope, width, norm));
  ASSIGN_OR_RETURN(Product o, LoadProduct(scope, "o", width, attention->out_width()));
  sublayer.output_ = PackedWeights::Pack({{o.weight, o.bias}}, precision);
  std::vector<PackedWeights::Part> parts;
  for (const Product& product : attention->products()) parts.push_back({product.weight, product.bias});
  sublayer.products_ = PackedWeights::Pack(parts, precision);
  sublayer.attention_ = std::move(attention);
  return sublayer;
}

void AttentionSublayer::Open(RowBlock& block, const Rows& products) const {
  Linear(block, residual_.Open(block), products_, {.out = products});
}

void AttentionSublayer::Close(RowBlock& block, const Rows& attended) const {
  residual_.Close(block, [&](const Epilogue& out) { Linear(block, attended, output_, out); });
}

std::vector<Rows> AttentionSublayer::Split(const Rows& products) const {
  std::vector<Rows> split;
  for (size_t p = 0; p < attention_->products().size(); ++p) {
    split.push_back(
        products.Cols(products_.offset(static_cast<int>(p)), attention_->products()[p].weight.dim(0)));
  }
  return split;
}

double AttentionSublayer::multiply_adds() const {
  return static_cast<double>(products_.in()) * products_.out() +
         static_cast<double>(output_.in()) * output_.out();
}

absl::StatusOr<FeedForwardSublayer> FeedForwardSublayer::Load(std::unique_ptr<FeedForward> feed_forward,
                                                              const WeightScope& norm_scope, int64_t width,
                                                              const NormOptions& norm) {
  FeedForwardSublayer sublayer;
  ASSIGN_OR_RETURN(sublayer.residual_, Residual::Load(norm_scope, width, norm));
  sublayer.feed_forward_ = std::move(feed_forward);
  return sublayer;
}

void FeedForwardSublayer::Run(RowBlock& block) const {
  Rows input = residual_.Open(block);
  residual_.Close(block, [&](const Epilogue& out) { feed_forward_->Run(block, input, out); });
}

}  // namespace heed
