#include "engine/models/layers.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/models/layer_inputs.h"

namespace heed {

LayerPlan::LayerPlan(const ModelConfig& config)
    : width(config.width),
      num_heads(config.num_heads),
      intermediate_size(config.intermediate_size),
      act(config.act),
      norm(config.norm),
      residual_multiplier(config.residual_multiplier),
      grid(config.grid),
      reversible(config.reversible) {}

// Of two streams (Gomez et al. 2017, as in the Reformer, Kitaev et al. 2020) x1 += attention(norm1(x2)), then
// x2 += ffn(norm2(x1)).
ResidualOptions ResidualOf(const LayerPlan& plan, bool attention) {
  const int64_t second = plan.reversible ? plan.width : 0;
  return {.width = plan.width,
          .norm = plan.norm,
          .read_column = attention ? second : 0,
          .write_column = attention ? 0 : second,
          .multiplier = plan.residual_multiplier};
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
                           .front = cross ? 0 : plan.front,
                           .norm_eps = plan.norm.eps,
                           .norm_offset = plan.norm.weight_offset,
                           .spacing = plan.spacing,
                           .keys_lent = plan.keys_lent && !cross};
  JsonFields fields(options, setting.where);
  setting.num_heads = static_cast<int>(fields.Int("num_heads", plan.num_heads, 1, plan.width));
  ASSIGN_OR_RETURN(std::unique_ptr<Attention> attention, NewAttention(setting, fields, scope));
  if (setting.causal && attention->decode() == DecodeClass::kNone)
    return Invalid(setting.where, ": this attention cannot decode: it is for encoders only");
  if (cross && std::ranges::none_of(attention->products(), [](const Product& p) { return p.of_source; }))
    return Invalid(setting.where, ": this attention cannot read a source");
  const int64_t source_width = plan.source_width > 0 ? plan.source_width : plan.width;
  for (const Product& product : attention->products()) {
    if (product.of_source && !product.lent && product.weight.dim(1) != source_width)
      return Invalid(setting.where, ": this attention reads a source of ", product.weight.dim(1),
                     " numbers a row; the source's have ", source_width);
  }
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
                                   .where = std::move(where),
                                   .norm = plan.norm};
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

namespace {

// The model's plan with the layer's own norms.
absl::StatusOr<LayerPlan> PlanOf(const LayerPlan& model, const LayerConfig& layer, const std::string& where) {
  LayerPlan plan = model;
  plan.norm.placement = layer.norm.value_or(model.norm.placement);
  const NormPlacement attention = layer.attention_norm.value_or(plan.norm.placement);
  const bool pre = plan.norm.placement == NormPlacement::kPre && attention == NormPlacement::kPre;
  if (model.reversible && !pre)
    return Invalid(where, "norm: two streams (reversible) are served with \"pre\"");
  if (layer.parallel && (model.reversible || !pre))
    return Invalid(where,
                   "parallel: true; it is served with norm \"pre\", and not of two streams (reversible)");
  return plan;
}

// The feed-forward that reads what the attention reads, if the layer is parallel; else null.
absl::StatusOr<std::unique_ptr<RowStep>> LoadBeside(const LayerPlan& plan, const LayerConfig& layer,
                                                    const std::string& where, const WeightScope& scope,
                                                    const Attention& attention) {
  if (!layer.parallel) return nullptr;
  if (attention.reads_input())
    return Invalid(where, "parallel: true; the attention \"", layer.attention.value("type", ""),
                   "\" reads the layer's input after its ffn has been added to it");
  ASSIGN_OR_RETURN(std::unique_ptr<RowStep> step,
                   LoadFeedForward(plan, where + "ffn", layer.feed_forward, scope / "ffn", scope / "norm2"));
  if (!step) return Invalid(where, "parallel: true; there is no ffn to stand beside the attention");
  return step;
}

// The set whose rows are, in their first columns, what the convolution makes of those that the layer will
// read.
absl::StatusOr<int> AddConvolution(const LayerPlan& plan, const LayerConfig& layer, const std::string& where,
                                   const WeightScope& scope, int set, Stack& stack) {
  const RowSet& rows = stack.sets()[set];
  if (plan.causal || plan.reversible || plan.group > 0 || rows.group > 0 || rows.remembered)
    return Invalid(where, "convolution: of an encoder's rows, which come whole, in one stream and one group");
  const int64_t read = layer.convolution_kernel * plan.width;
  ASSIGN_OR_RETURN(PackedWeights weights,
                   LoadWeights(scope, "convolution", plan.width, read, plan.precision));
  const int answered = stack.answered();
  const int made = stack.AddSet({.count = rows.count, .input = WorkInput::kNone, .width = read});
  stack.SetAnswered(answered);
  stack.AddMove(made, set, std::make_unique<TakeNeighbours>(layer.convolution_kernel));
  stack.Add(made,
            std::make_unique<TransformStep>(std::move(weights), layer.convolution_activation, std::nullopt));
  return made;
}

// Brings it into the residual stream.
absl::Status CloseConvolution(const LayerPlan& plan, const WeightScope& scope, int made, int set,
                              Stack& stack) {
  ASSIGN_OR_RETURN(Norm norm, Norm::Load(scope / "norm_convolution", plan.width, plan.norm));
  stack.AddMove(set, made, std::make_unique<AddToRows>());
  stack.Add(set, std::make_unique<NormStep>(std::move(norm)));
  return absl::OkStatus();
}

// The attention, of layer `number` of the model's, whose keys and values another reads.
absl::StatusOr<int> LenderOf(int64_t number, const std::string& where, int set, const Stack& stack) {
  for (int lender = 0; lender < std::ssize(stack.attentions()); ++lender) {
    const Stack::Attend& attend = stack.attentions()[lender];
    if (attend.set == set && attend.layer == number && !attend.cross() && stack.keeps_run(attend))
      return lender;
  }
  return Invalid(where, "keys_of: of layers of one decoder, whose sequences remember keys");
}

}  // namespace

absl::Status AddLayer(const LayerPlan& model, const LayerConfig& layer, int i, int number,
                      const WeightScope& scope, int set, Stack& stack, bool shortens) {
  const std::string where = Cat("config.json: ", model.key, "[", i, "].");
  ASSIGN_OR_RETURN(const LayerPlan plan, PlanOf(model, layer, where));
  std::optional<int> convolved;
  if (layer.convolution_kernel > 0) {
    ASSIGN_OR_RETURN(convolved, AddConvolution(plan, layer, where, scope, set, stack));
  }
  const auto add = [&](const std::string& name, const std::string& norm, const Json& options,
                       bool cross) -> absl::Status {
    const bool first = name == "attention";
    LayerPlan own = plan;
    if (first) own.norm.placement = layer.attention_norm.value_or(plan.norm.placement);
    if (first && plan.first_unnormed && i == 0) own.norm.placement = NormPlacement::kNone;
    int lender = Stack::kItself;
    if (first && layer.keys_of) {
      ASSIGN_OR_RETURN(lender, LenderOf(number - i + *layer.keys_of, where, set, stack));
      own.keys_lent = true;
    }
    ASSIGN_OR_RETURN(AttentionSublayer sublayer,
                     LoadAttention(own, options, cross, where + name, scope / name, scope / norm));
    if (shortens && NormsInput(own.norm.placement)) {
      ASSIGN_OR_RETURN(Norm norm_source, Norm::Load(scope / norm, plan.width, plan.norm));
      sublayer.NormSource(std::move(norm_source));
    }
    ASSIGN_OR_RETURN(std::unique_ptr<RowStep> beside,
                     LoadBeside(plan, layer, where, scope, sublayer.attention()));
    stack.AddAttention({.set = set,
                        .source = cross ? plan.source : Stack::kItself,
                        .layer = number,
                        .type = options.value("type", ""),
                        .group = plan.group,
                        .lender = lender,
                        .sublayer = std::make_unique<AttentionSublayer>(std::move(sublayer)),
                        .beside = std::move(beside)});
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add("attention", "norm1", layer.attention, shortens));
  if (!layer.cross_attention.is_null()) {
    RETURN_IF_ERROR(add("cross_attention", "norm_cross", layer.cross_attention, /*cross=*/true));
  }
  if (!layer.parallel) {
    RETURN_IF_ERROR(
        AddFeedForward(plan, where + "ffn", layer.feed_forward, scope / "ffn", scope / "norm2", set, stack));
  }
  if (convolved) RETURN_IF_ERROR(CloseConvolution(plan, scope, *convolved, set, stack));
  if (plan.layer_input > 0) {
    ASSIGN_OR_RETURN(std::unique_ptr<RowStep> step, LoadInputOfLayer(plan, i, scope / "input"));
    stack.Add(set, std::move(step));
  }
  if (!layer.scaled) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<float> factor, scope.Floats("layer_scale.weight", {1}));
  stack.Add(set, std::make_unique<ScaleStep>(factor[0], plan.layer_input > 0 ? plan.width : 0));
  return absl::OkStatus();
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
  if (!config.norm_last) return std::nullopt;
  ASSIGN_OR_RETURN(Norm norm, Norm::Load(scope / "norm", width, config.norm));
  return norm;
}

absl::StatusOr<Embedding> AddEmbedding(const ModelConfig& config, const LayerPlan& plan,
                                       const WeightScope& scope, int set, Stack& stack) {
  EmbeddingOptions options{.vocab_size = config.vocab_size,
                           .width = plan.width,
                           .scale = config.embedding_scale,
                           .positions = config.positions,
                           .max_positions = config.max_positions,
                           .types = config.type_vocab_size,
                           .norm_of_tokens = config.embedding_norm_of_tokens,
                           .projection = config.embedding_projection,
                           .table_width = config.embedding_size,
                           .clusters = config.embedding_clusters,
                           .precision = plan.precision};
  if (config.embedding_norm) options.norm = config.norm;
  ASSIGN_OR_RETURN(Embedding embedding, Embedding::Load(scope, options));
  stack.Add(set, std::make_unique<EmbedStep>(embedding, stack.sets()[set].front, stack.sets()[set].beside));
  return embedding;
}

}  // namespace heed
