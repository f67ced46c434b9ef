// "perceiver-encoder": the Perceiver (Jaegle et al. 2021) in a plain pre-norm form. Learned latents Z read
// the input again and again: each block is
//   Z += cross_attention(norm_cross(Z), norm_input(inputs));  Z += ffn(norm_ffn(Z));  its layers on Z,
// and blocks may share their weights. What an input costs grows with its length times the latents.
//   input               {"kind": "tokens"}: ids, embedded in input_size numbers; {"kind": "floats"}:
//                       vectors of input_size numbers. The positions of either are added
//   input_size, num_latents
//   cross_attention ({"type": "full"})  attention of any type that reads a source, with its own num_heads
//   cross_ffn ({"type": "dense"})  the feed-forward behind it
//   layers              [{"attention", "ffn"}, ...] of one block, or none
//   layer_passes (1)    how often a block's layers are passed, all of them after one another
//   block_weights       which weights each block has: [0, 1, 1]
//   output              none: the latents are what is answered. Else learned queries Y read them, and are the
//                       answer, as many whatever the input's length (Jaegle et al. 2021, Perceiver IO):
//                       Y = Y + cross_attention(norm_cross(Y), norm_input(Z));  Y += ffn(norm_ffn(Y)), as
//                       {"queries", "size" (hidden_size), "cross_attention" and "ffn" as above, "residual"
//                       (true): whether the attention is added to Y, or takes its place}
//   head                "classification": classifier(norm(mean of the latents)) or, with output, of its first
//                       row; "none": the rows; with output also "lm", which may be tied to embed.tokens
// Tensors: latents [num_latents, hidden_size], embed.tokens.weight [vocab_size, input_size],
// embed.positions.weight, blocks.S.{norm_cross, norm_input, norm_ffn}.*, blocks.S.cross_attention.* (k and v
// read input_size numbers), blocks.S.ffn.*, blocks.S.layers.I.*; with output output.queries [queries, size],
// output.{norm_cross, norm_input, norm_ffn, cross_attention, ffn}.*; with a classification classifier.*, and
// of latents norm.*.
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

const Json& PlainAttention() {
  static const auto& plain = *new Json{{"type", "full"}};
  return plain;
}
const Json& PlainFeedForward() {
  static const auto& plain = *new Json{{"type", "dense"}};
  return plain;
}

class PerceiverStack : public StackRecipe {
 public:
  struct Options {
    bool tokens = false;  // else vectors
    int64_t input_size = 0;
    int64_t num_latents = 0;
    // Attention and feed-forward where rows read others.
    struct Reading {
      Json attention, ffn;
      std::string attention_where, ffn_where;  // of these in config.json
    };
    Reading reading;
    int64_t layer_passes = 1;
    std::vector<int64_t> block_weights;
    struct Output {
      int64_t queries = 0, size = 0;
      Reading reading;
      bool residual = true;
    };
    std::optional<Output> output;
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
    if (options_.output) RETURN_IF_ERROR(AddOutput(plan, scope / "output", latents, loaded));
    if (!options_.classifies || options_.output) return loaded;
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
      loaded.tied = embedding.tokens();
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
    RETURN_IF_ERROR(AddTable(scope, "latents", options_.num_latents, config.width, set, loaded));
    return set;
  }

  // The rows with which a set begins.
  static absl::Status AddTable(const WeightScope& scope, const std::string& name, int64_t rows, int64_t width,
                               int set, LoadedStack& loaded) {
    ASSIGN_OR_RETURN(Tensor table, scope.Get(name, {rows, width}));
    loaded.embedding_bytes += table.size() * SizeOf(table.dtype);
    loaded.stack.Add(set, std::make_unique<TableStep>(std::move(table)));
    return absl::OkStatus();
  }

  // Weights are loaded where they are first passed.
  absl::Status AddBlocks(const LayerPlan& plan, const ModelConfig& config, const WeightScope& scope,
                         int latents, LoadedStack& loaded) const {
    std::map<int64_t, Marks> added;
    for (const int64_t weights : options_.block_weights) {
      const auto [block, is_new] = added.try_emplace(weights);
      if (is_new) {
        RETURN_IF_ERROR(
            AddBlock(plan, config, scope / Cat("blocks.", weights), latents, loaded, block->second));
      } else {
        loaded.stack.Repeat(block->second.begin, block->second.end);
      }
      for (int64_t pass = 1; pass < options_.layer_passes; ++pass)
        loaded.stack.Repeat(block->second.layers, block->second.end);
    }
    return absl::OkStatus();
  }

  // Where a block stands in the stack, and in it its layers.
  struct Marks {
    int begin = 0, layers = 0, end = 0;
  };

  absl::Status AddBlock(const LayerPlan& plan, const ModelConfig& config, const WeightScope& scope,
                        int latents, LoadedStack& loaded, Marks& marks) const {
    marks.begin = loaded.stack.Mark();
    RETURN_IF_ERROR(AddReading(plan, options_.reading, scope, latents, nullptr, loaded));
    if (options_.layer_passes > 1) marks.layers = loaded.stack.Mark();
    RETURN_IF_ERROR(AddLayers(plan, config.layers, &loaded.layers, scope, latents, loaded.stack));
    marks.end = loaded.stack.Mark();
    return absl::OkStatus();
  }

  // Rows that read those of the plan's source, and what follows. `beside`: as Attend has it.
  absl::Status AddReading(const LayerPlan& plan, const Options::Reading& reading, const WeightScope& scope,
                          int set, std::unique_ptr<RowStep> beside, LoadedStack& loaded) const {
    ASSIGN_OR_RETURN(AttentionSublayer attention,
                     LoadAttention(plan, reading.attention, /*cross=*/true, reading.attention_where,
                                   scope / "cross_attention", scope / "norm_cross"));
    ASSIGN_OR_RETURN(Norm norm, Norm::Load(scope / "norm_input", plan.source_width, plan.norm));
    attention.NormSource(std::move(norm));
    loaded.stack.AddAttention({.set = set,
                               .source = plan.source,
                               .layer = loaded.layers++,
                               .type = reading.attention.value("type", ""),
                               .sublayer = std::make_unique<AttentionSublayer>(std::move(attention)),
                               .beside = std::move(beside)});
    return AddFeedForward(plan, reading.ffn_where, reading.ffn, scope / "ffn", scope / "norm_ffn", set,
                          loaded.stack);
  }

  absl::Status AddOutput(LayerPlan plan, const WeightScope& scope, int latents, LoadedStack& loaded) const {
    const Options::Output& output = *options_.output;
    plan.source = latents;
    plan.source_width = plan.width;
    plan.width = output.size;
    const int set = loaded.stack.AddSet(
        {.count = RowCount::Fixed(output.queries), .input = WorkInput::kNone, .width = output.size});
    RETURN_IF_ERROR(AddTable(scope, "queries", output.queries, output.size, set, loaded));
    // Without a residual what is attended is added to zeros.
    return AddReading(plan, output.reading, scope, set,
                      output.residual ? nullptr : std::make_unique<ScaleStep>(0.0f), loaded);
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

Json ReadObject(JsonFields& fields, const char* key, const Json& fallback) {
  const Json& options = fields.Raw(key);
  if (options.is_null()) return fallback;
  if (!options.is_object()) fields.Fail(Cat(key, " is not an object"));
  return options;
}

PerceiverStack::Options::Output ReadOutput(const Json& json, const ModelConfig& config, JsonFields& fields) {
  JsonFields own(json, fields.Name("output"));
  PerceiverStack::Options::Output output;
  output.queries = own.RequiredInt("queries", 1, kMostLatents);
  output.size = own.Int("size", config.width, 1, kMostInputSize);
  output.reading = {.attention = ReadObject(own, "cross_attention", PlainAttention()),
                    .ffn = ReadObject(own, "ffn", PlainFeedForward()),
                    .attention_where = own.Name("cross_attention"),
                    .ffn_where = own.Name("ffn")};
  output.residual = own.Bool("residual", true);
  fields.Fail(own.Finish());
  return output;
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
  options.reading = {.attention = ReadObject(fields, "cross_attention", PlainAttention()),
                     .ffn = ReadObject(fields, "cross_ffn", PlainFeedForward()),
                     .attention_where = fields.Name("cross_attention"),
                     .ffn_where = fields.Name("cross_ffn")};
  options.layer_passes = fields.Int("layer_passes", 1, 1, kMostBlocks);
  if (!fields.Has("layers") || fields.Raw("layers") != Json::array())
    config.layers = ReadLayers(fields, "layers", /*cross=*/false);
  options.block_weights = ReadBlockWeights(fields);
  if (const Json& output = fields.Raw("output"); !output.is_null()) {
    options.output = ReadOutput(output, config, fields);
    const std::string head = fields.Choice("head", {"none", "classification", "lm"});
    options.classifies = head == "classification";
  } else {
    options.classifies = ReadsClasses(fields, config);
  }
  if (config.norm.placement != NormPlacement::kPre) fields.Fail("norm: a Perceiver's is \"pre\"");
  return std::make_shared<PerceiverStack>(std::move(options));
}

}  // namespace heed
