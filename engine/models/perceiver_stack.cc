// "perceiver-encoder": the Perceiver (Jaegle et al. 2021) in a plain pre-norm form. Learned latents Z read
// the input again and again: each block is
//   Z += cross_attention(norm_cross(Z), norm_input(inputs));  Z += ffn(norm_ffn(Z));  its layers on Z,
// and blocks may share their weights. What an input costs grows with its length times the latents.
//   input               {"kind": "tokens"}: ids, embedded in input_size numbers; {"kind": "floats"}:
//                       vectors of input_size numbers. The positions of either are added
//   input_size, num_latents
//   cross_attention ({"type": "full"})  attention of any type that reads a source, with its own num_heads
//   layers              [{"attention", "ffn"}, ...] of one block, or none; its first ffn is "dense"
//   block_weights       which weights each block has: [0, 1, 1]
//   head                "classification": classifier(norm(mean of the latents)); "none": the latents
// Tensors: latents [num_latents, hidden_size], embed.tokens.weight [vocab_size, input_size],
// embed.positions.weight, blocks.S.{norm_cross, norm_input, norm_ffn}.*, blocks.S.cross_attention.* (k and v
// read input_size numbers), blocks.S.ffn.*, blocks.S.layers.I.*; with a classification norm.* and
// classifier.*.
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/models/layers.h"
#include "engine/models/stack_recipe.h"

namespace heed {
namespace {

constexpr int64_t kMostInputSize = 1 << 16;
constexpr int64_t kMostLatents = 1 << 20;
constexpr int64_t kMostBlocks = 1024;

class PerceiverStack : public StackRecipe {
 public:
  struct Options {
    bool tokens = false;  // else vectors
    int64_t input_size = 0;
    int64_t num_latents = 0;
    Json cross_attention;
    std::vector<int64_t> block_weights;
    bool classifies = false;
  };
  explicit PerceiverStack(Options options) : options_(std::move(options)) {}

  absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                   Precision precision) const override {
    LoadedStack loaded;
    LayerPlan plan(config);
    plan.precision = precision;
    ASSIGN_OR_RETURN(plan.source, AddInputs(config, scope, loaded));
    plan.source_width = options_.input_size;
    ASSIGN_OR_RETURN(const int latents, AddLatents(config, scope, loaded));
    RETURN_IF_ERROR(AddBlocks(plan, config, scope, latents, loaded));
    if (!options_.classifies) return loaded;
    ASSIGN_OR_RETURN(Norm norm, Norm::Load(scope / "norm", config.width, config.norm));
    loaded.stack.SetNorm(std::move(norm));
    loaded.head.norm_after_pooling = true;
    return loaded;
  }

 private:
  absl::StatusOr<int> AddInputs(const ModelConfig& config, const WeightScope& scope,
                                LoadedStack& loaded) const {
    const int set = loaded.stack.AddSet(
        {.input = options_.tokens ? WorkInput::kTokens : WorkInput::kNone, .width = options_.input_size});
    if (options_.tokens) {
      LayerPlan plan(config);
      plan.width = options_.input_size;
      ASSIGN_OR_RETURN(const Embedding embedding, AddEmbedding(config, plan, scope, set, loaded.stack));
      loaded.embedding_bytes = embedding.bytes();
      return set;
    }
    loaded.input = {.kind = InputRow::Kind::kVector, .ids = 0, .numbers = options_.input_size};
    loaded.stack.AddMove(set, Stack::kItself, std::make_unique<TakeNumbers>());
    ASSIGN_OR_RETURN(PositionTable positions,
                     PositionTable::Load(scope / "embed.positions",
                                         {config.positions, options_.input_size, config.max_positions}));
    loaded.embedding_bytes = positions.bytes();
    loaded.stack.Add(set, std::make_unique<PositionStep>(std::move(positions)));
    return set;
  }

  absl::StatusOr<int> AddLatents(const ModelConfig& config, const WeightScope& scope,
                                 LoadedStack& loaded) const {
    const int set = loaded.stack.AddSet(
        {.count = RowCount::Fixed(options_.num_latents), .input = WorkInput::kNone, .width = config.width});
    ASSIGN_OR_RETURN(Tensor latents, scope.Get("latents", {options_.num_latents, config.width}));
    loaded.embedding_bytes += latents.size() * SizeOf(latents.dtype);
    loaded.stack.Add(set, std::make_unique<TableStep>(std::move(latents)));
    return set;
  }

  // Weights are loaded where they are first passed.
  absl::Status AddBlocks(const LayerPlan& plan, const ModelConfig& config, const WeightScope& scope,
                         int latents, LoadedStack& loaded) const {
    struct Marks {
      int begin, end;
    };
    std::map<int64_t, Marks> added;
    for (const int64_t weights : options_.block_weights) {
      if (const auto found = added.find(weights); found != added.end()) {
        loaded.stack.Repeat(found->second.begin, found->second.end);
        continue;
      }
      const int begin = loaded.stack.Mark();
      RETURN_IF_ERROR(AddBlock(plan, config, scope / Cat("blocks.", weights), latents, loaded));
      added[weights] = {begin, loaded.stack.Mark()};
    }
    return absl::OkStatus();
  }

  absl::Status AddBlock(const LayerPlan& plan, const ModelConfig& config, const WeightScope& scope,
                        int latents, LoadedStack& loaded) const {
    ASSIGN_OR_RETURN(
        AttentionSublayer attention,
        LoadAttention(plan, options_.cross_attention, /*cross=*/true, "config.json: cross_attention",
                      scope / "cross_attention", scope / "norm_cross"));
    ASSIGN_OR_RETURN(Norm norm, Norm::Load(scope / "norm_input", options_.input_size, config.norm));
    attention.NormSource(std::move(norm));
    loaded.stack.AddAttention({.set = latents,
                               .source = plan.source,
                               .layer = loaded.layers++,
                               .type = options_.cross_attention.value("type", ""),
                               .sublayer = std::make_unique<AttentionSublayer>(std::move(attention))});
    RETURN_IF_ERROR(AddFeedForward(plan, "config.json", {{"type", "dense"}}, scope / "ffn",
                                   scope / "norm_ffn", latents, loaded.stack));
    return AddLayers(plan, config.layers, &loaded.layers, scope, latents, loaded.stack);
  }

  Options options_;
};

bool ReadsTokens(JsonFields& fields, const ModelConfig& config) {
  JsonFields input(fields.Raw("input"), fields.Name("input"));
  const bool tokens = input.Choice("kind", {"tokens", "floats"}) == "tokens";
  if (!input.Has("kind")) input.Fail("kind is missing");
  fields.Fail(input.Finish());
  if (tokens) config.RequireTokens(fields);
  if (!tokens && config.vocab_size > 0)
    fields.Fail(Cat("vocab_size: ", config.vocab_size, "; an input of floats has no vocabulary"));
  return tokens;
}

Json ReadCrossAttention(JsonFields& fields) {
  if (!fields.Has("cross_attention")) return {{"type", "full"}};
  const Json& options = fields.Raw("cross_attention");
  if (!options.is_object()) fields.Fail("cross_attention is not an object");
  return options;
}

std::vector<int64_t> ReadBlockWeights(JsonFields& fields) {
  if (!fields.Has("block_weights")) fields.Fail("block_weights is missing");
  return fields.Ints("block_weights", 1, kMostBlocks, 0, kMostBlocks - 1);
}

// True if it classifies. Latents are classified by their mean, or are the answer themselves.
bool ReadsClasses(JsonFields& fields, ModelConfig& config) {
  config.class_pooling = Pooling::kMean;
  const bool classifies = fields.Choice("head", {"none", "classification"}) == "classification";
  if (!fields.Has("pooling")) return classifies;
  if (!classifies) fields.Fail("pooling: with head \"none\" the answer is all latents");
  fields.Choice("pooling", {"mean"});
  return classifies;
}

}  // namespace

std::shared_ptr<const StackRecipe> ReadPerceiverStack(JsonFields& fields, ModelConfig& config) {
  PerceiverStack::Options options;
  options.tokens = ReadsTokens(fields, config);
  options.input_size = fields.RequiredInt("input_size", 1, kMostInputSize);
  options.num_latents = fields.RequiredInt("num_latents", 1, kMostLatents);
  options.cross_attention = ReadCrossAttention(fields);
  if (!fields.Has("layers") || fields.Raw("layers") != Json::array())
    config.layers = ReadLayers(fields, "layers", /*cross=*/false);
  options.block_weights = ReadBlockWeights(fields);
  options.classifies = ReadsClasses(fields, config);
  if (config.norm.placement != NormPlacement::kPre) fields.Fail("norm: a Perceiver's is \"pre\"");
  return std::make_shared<PerceiverStack>(std::move(options));
}

}  // namespace heed
