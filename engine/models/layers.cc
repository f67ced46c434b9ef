#include "engine/models/layers.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"

namespace heed {

LayerPlan::LayerPlan(const ModelConfig& config)
    : width(config.width),
      num_heads(config.num_heads),
      intermediate_size(config.intermediate_size),
      act(config.act),
      norm(config.norm),
      grid(config.grid),
      reversible(config.reversible) {}

// Of two streams (Gomez et al. 2017, as in the Reformer, Kitaev et al. 2020) x1 += attention(norm1(x2)), then
// x2 += ffn(norm2(x1)).
ResidualOptions ResidualOf(const LayerPlan& plan, bool attention) {
  const int64_t second = plan.reversible ? plan.width : 0;
  return {.width = plan.width,
          .norm = plan.norm,
          .read_column = attention ? second : 0,
          .write_column = attention ? 0 : second};
}

absl::StatusOr<AttentionSublayer> LoadAttention(const LayerPlan& plan, const Json& options, bool cross,
                                                std::string where, const WeightScope& scope,
                                                const WeightScope& norm) {
  AttentionSetting setting{.width = plan.width,
                           .causal = plan.causal && !cross,
                           .cross = cross,
                           .precision = plan.precision,
                           .where = std::move(where),
                           .grid = plan.grid,
                           .source_width = cross ? plan.source_width : 0,
                           .image = cross ? std::nullopt : plan.image,
                           .front = cross ? 0 : plan.front};
  JsonFields fields(options, setting.where);
  setting.num_heads = static_cast<int>(fields.Int("num_heads", plan.num_heads, 1, plan.width));
  ASSIGN_OR_RETURN(std::unique_ptr<Attention> attention, NewAttention(setting, fields, scope));
  if (setting.causal && attention->decode() == DecodeClass::kNone)
    return Invalid(setting.where, ": this attention cannot decode: it is for encoders only");
  if (cross && std::ranges::none_of(attention->products(), [](const Product& p) { return p.of_source; }))
    return Invalid(setting.where, ": this attention cannot read a source");
  return AttentionSublayer::Load(std::move(attention), scope, norm, ResidualOf(plan, /*attention=*/true),
                                 plan.precision);
}

absl::StatusOr<std::unique_ptr<RowStep>> LoadFeedForward(const LayerPlan& plan, std::string where,
                                                         const Json& options, const WeightScope& scope,
                                                         const WeightScope& norm) {
  const FeedForwardSetting setting{.width = plan.width,
                                   .hidden = plan.intermediate_size,
                                   .act = plan.act,
                                   .num_heads = plan.num_heads,
                                   .precision = plan.precision,
                                   .where = std::move(where)};
  JsonFields fields(options, setting.where);
  ASSIGN_OR_RETURN(auto feed_forward, NewFeedForward(setting, fields, scope));
  if (!feed_forward) return nullptr;
  ASSIGN_OR_RETURN(
      FeedForwardSublayer sublayer,
      FeedForwardSublayer::Load(std::move(feed_forward), norm, ResidualOf(plan, /*attention=*/false)));
  return std::make_unique<FeedForwardStep>(std::move(sublayer));
}

absl::Status AddFeedForward(const LayerPlan& plan, std::string where, const Json& options,
                            const WeightScope& scope, const WeightScope& norm, int set, Stack& stack) {
  ASSIGN_OR_RETURN(std::unique_ptr<RowStep> step,
                   LoadFeedForward(plan, std::move(where), options, scope, norm));
  if (step) stack.Add(set, std::move(step));
  return absl::OkStatus();
}

absl::Status AddLayer(const LayerPlan& plan, const LayerConfig& layer, int i, int number,
                      const WeightScope& scope, int set, Stack& stack, bool shortens) {
  const std::string where = Cat("config.json: ", plan.key, "[", i, "].");
  const auto add = [&](const std::string& name, const std::string& norm, const Json& options,
                       bool cross) -> absl::Status {
    LayerPlan own = plan;
    if (plan.first_unnormed && i == 0 && name == "attention") own.norm.placement = NormPlacement::kNone;
    ASSIGN_OR_RETURN(AttentionSublayer sublayer,
                     LoadAttention(own, options, cross, where + name, scope / name, scope / norm));
    if (shortens && plan.norm.placement == NormPlacement::kPre) {
      ASSIGN_OR_RETURN(Norm norm_source, Norm::Load(scope / norm, plan.width, plan.norm));
      sublayer.NormSource(std::move(norm_source));
    }
    stack.AddAttention({.set = set,
                        .source = cross ? plan.source : Stack::kItself,
                        .layer = number,
                        .type = options.value("type", ""),
                        .group = plan.group,
                        .sublayer = std::make_unique<AttentionSublayer>(std::move(sublayer))});
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add("attention", "norm1", layer.attention, shortens));
  if (!layer.cross_attention.is_null()) {
    RETURN_IF_ERROR(add("cross_attention", "norm_cross", layer.cross_attention, /*cross=*/true));
  }
  return AddFeedForward(plan, where + "ffn", layer.feed_forward, scope / "ffn", scope / "norm2", set, stack);
}

absl::Status AddLayers(const LayerPlan& plan, const std::vector<LayerConfig>& layers, int* number,
                       const WeightScope& scope, int set, Stack& stack) {
  for (int i = 0; i < std::ssize(layers); ++i) {
    RETURN_IF_ERROR(AddLayer(plan, layers[i], i, (*number)++, scope / Cat("layers.", i), set, stack));
  }
  return absl::OkStatus();
}

absl::StatusOr<PackedWeights> LoadWeights(const WeightScope& scope, const std::string& name, int64_t out,
                                          int64_t in, Precision precision) {
  ASSIGN_OR_RETURN(const Product product, LoadProduct(scope, name, out, in));
  return PackedWeights::Pack({{product.weight, product.bias}}, precision);
}

absl::StatusOr<std::optional<Norm>> LoadLastNorm(const ModelConfig& config, int64_t width,
                                                 const WeightScope& scope) {
  if (config.norm.placement != NormPlacement::kPre) return std::nullopt;
  ASSIGN_OR_RETURN(Norm norm, Norm::Load(scope / "norm", width, config.norm));
  return norm;
}

absl::StatusOr<Embedding> AddEmbedding(const ModelConfig& config, int64_t width, const WeightScope& scope,
                                       int set, Stack& stack) {
  ASSIGN_OR_RETURN(Embedding embedding,
                   Embedding::Load(scope, {config.vocab_size, width, config.embedding_scale, config.positions,
                                           config.max_positions}));
  stack.Add(set, std::make_unique<EmbedStep>(embedding, stack.sets()[set].front));
  return embedding;
}

}  // namespace heed
