// "etc-encoder": the Extended Transformer Construction (Ainslie et al. 2020). A long and a global stream of
// tokens go through the layers side by side; in each they meet in attention (engine/attention/etc.h), both
// reading what rows were before it.
//   layers             [{"attention": {"type": "etc", ...}, "ffn"}, ...]
//   share_ffn (true)   both streams have one ffn and the norm that is its
//   tokens_per_global  so many tokens of the long stream belong to a global one, where a request does not
//                      say to which. None: they belong to none then
//   global_token       the id of the global tokens that a request does not give. None, or without
//                      tokens_per_global: it gives them
//   head               "none": the rows of both streams, the long ones first; "lm",
//                      "token_classification": of the long ones; "classification": of the global ones, pooled
// Tensors, "_global" of the global stream: embed.tokens.weight of both, embed.positions.weight and
// embed.positions_global.weight if learned, and where present embed.segments.weight [2, hidden_size] (the
// first row is added to the global tokens) and embed.norm.*, embed.norm_global.*; layers.I.norm1.*,
// norm1_global.*; layers.I.attention.* with o and o_global; layers.I.norm2.*, ffn.*, without share_ffn
// norm2_global.*, ffn_global.* too; norm.*, norm_global.* if norms come first.
#include <array>
#include <optional>
#include <utility>

#include "engine/attention/etc.h"
#include "engine/base/status.h"
#include "engine/models/layers.h"
#include "engine/models/stack_recipe.h"

namespace heed {
namespace {

constexpr int64_t kMostTokensPerGlobal = int64_t{1} << 30;

// A stream's set, and what marks its tensors.
struct Stream {
  EtcStream kind = EtcStream::kLong;
  std::string suffix;
  int set = 0;
};
using Streams = std::array<Stream, 2>;

class EtcStack : public StackRecipe {
 public:
  struct Options {
    bool share_ffn = true;
    GlobalInput input;
  };
  explicit EtcStack(const Options& options) : options_(options) {}

  absl::StatusOr<LoadedStack> Load(const ModelConfig& config, const WeightScope& scope,
                                   Precision precision) const override {
    LoadedStack loaded;
    loaded.global_input = options_.input;
    LayerPlan plan(config);
    plan.precision = precision;
    Streams streams{Stream{EtcStream::kLong, ""}, Stream{EtcStream::kGlobal, "_global"}};
    for (Stream& stream : streams) RETURN_IF_ERROR(AddStream(config, scope, stream, loaded));
    for (const LayerConfig& layer : config.layers)
      RETURN_IF_ERROR(
          AddLayer(plan, layer, scope / Cat("layers.", loaded.layers), streams, loaded.layers, loaded.stack));
    RETURN_IF_ERROR(AddEnd(config, scope, streams, loaded.stack));
    return loaded;
  }

 private:
  // A set with its embedding.
  static absl::Status AddStream(const ModelConfig& config, const WeightScope& scope, Stream& stream,
                                LoadedStack& loaded) {
    const bool global = stream.kind == EtcStream::kGlobal;
    stream.set = loaded.stack.AddSet({.count = global ? RowCount::OfSource() : RowCount::OfInput(),
                                      .input = global ? WorkInput::kSource : WorkInput::kTokens,
                                      .width = config.width,
                                      .labelled = !global});
    ASSIGN_OR_RETURN(const Embedding embedding,
                     Embedding::Load(scope, {config.vocab_size, config.width, config.embedding_scale}));
    ASSIGN_OR_RETURN(PositionTable positions,
                     PositionTable::Load(scope / ("embed.positions" + stream.suffix),
                                         {config.positions, config.width, config.max_positions}));
    loaded.tied = embedding.tokens();
    loaded.embedding_bytes += positions.bytes() + (global ? 0 : embedding.bytes());
    loaded.stack.Add(stream.set, std::make_unique<EmbedStep>(embedding));
    if (config.positions != Positions::kNone)
      loaded.stack.Add(stream.set, std::make_unique<PositionStep>(std::move(positions)));
    return AddSegmentAndNorm(config, scope, stream, loaded.stack);
  }

  static absl::Status AddSegmentAndNorm(const ModelConfig& config, const WeightScope& scope,
                                        const Stream& stream, Stack& stack) {
    if (scope.Has("embed.segments.weight")) {
      ASSIGN_OR_RETURN(const Tensor segments, scope.Get("embed.segments.weight", {2, config.width}));
      std::vector<float> row(config.width);
      ToFloats(segments, stream.kind == EtcStream::kGlobal ? 0 : config.width, config.width, row.data());
      stack.Add(stream.set, std::make_unique<AddStep>(std::move(row)));
    }
    const WeightScope norm_scope = scope / ("embed.norm" + stream.suffix);
    if (!norm_scope.Has("weight")) return absl::OkStatus();
    ASSIGN_OR_RETURN(Norm norm, Norm::Load(norm_scope, config.width, config.norm));
    stack.Add(stream.set, std::make_unique<NormStep>(std::move(norm)));
    return absl::OkStatus();
  }

  absl::Status AddLayer(const LayerPlan& plan, const LayerConfig& layer, const WeightScope& scope,
                        const Streams& streams, int& number, Stack& stack) const {
    const std::string where = Cat("config.json: layers[", number, "].");
    std::vector<Stack::Attend> attends;
    for (const Stream& stream : streams) {
      const Stream& other = streams[attends.empty() ? 1 : 0];
      const AttentionSublayer* const before = attends.empty() ? nullptr : attends.front().sublayer.get();
      ASSIGN_OR_RETURN(AttentionSublayer sublayer,
                       LoadStream(plan, layer.attention, where + "attention", scope, stream, other, before));
      attends.push_back({.set = stream.set,
                         .source = other.set,
                         .layer = number,
                         .type = "etc",
                         .sublayer = std::make_unique<AttentionSublayer>(std::move(sublayer))});
    }
    ++number;
    stack.AddAttentions(std::move(attends));
    return AddFeedForwards(plan, layer.feed_forward, where + "ffn", scope, streams, stack);
  }

  // One stream's attention; `before`: the other's, whose products it shares. What products of their own read
  // of the other stream's rows is normed as that stream's are.
  static absl::StatusOr<AttentionSublayer> LoadStream(const LayerPlan& plan, const Json& options,
                                                      std::string where, const WeightScope& scope,
                                                      const Stream& stream, const Stream& other,
                                                      const AttentionSublayer* before) {
    AttentionSetting setting{
        .width = plan.width, .cross = true, .precision = plan.precision, .where = std::move(where)};
    JsonFields fields(options, setting.where);
    setting.num_heads = static_cast<int>(fields.Int("num_heads", plan.num_heads, 1, plan.width));
    ASSIGN_OR_RETURN(std::unique_ptr<Attention> attention,
                     NewEtcAttention(setting, stream.kind, fields, scope / "attention"));
    const bool shared = attention->products().back().lent.has_value();
    ASSIGN_OR_RETURN(
        AttentionSublayer sublayer,
        AttentionSublayer::Load(std::move(attention), scope / "attention", scope / ("norm1" + stream.suffix),
                                ResidualOf(plan, /*attention=*/true), plan.precision,
                                {.output = "o" + stream.suffix, .lender = shared ? before : nullptr}));
    if (shared || !NormsInput(plan.norm.placement)) return sublayer;
    ASSIGN_OR_RETURN(Norm norm, Norm::Load(scope / ("norm1" + other.suffix), plan.width, plan.norm));
    sublayer.NormSource(std::move(norm));
    return sublayer;
  }

  absl::Status AddFeedForwards(const LayerPlan& plan, const Json& options, const std::string& where,
                               const WeightScope& scope, const Streams& streams, Stack& stack) const {
    const RowStep* shared = nullptr;
    for (const Stream& stream : streams) {
      if (shared != nullptr) {
        stack.Add(stream.set, std::make_unique<SameStep>(*shared));
        continue;
      }
      ASSIGN_OR_RETURN(std::unique_ptr<RowStep> step,
                       LoadFeedForward(plan, where, options, scope / ("ffn" + stream.suffix),
                                       scope / ("norm2" + stream.suffix)));
      if (!step) break;
      if (options_.share_ffn) shared = step.get();
      stack.Add(stream.set, std::move(step));
    }
    return absl::OkStatus();
  }

  // The last norms, and the rows that the head reads.
  static absl::Status AddEnd(const ModelConfig& config, const WeightScope& scope, const Streams& streams,
                             Stack& stack) {
    const Stream& answered = streams[config.head == Head::kClassification ? 1 : 0];
    for (const Stream& stream : streams) {
      if (!NormsInput(config.norm.placement)) break;
      ASSIGN_OR_RETURN(Norm norm, Norm::Load(scope / ("norm" + stream.suffix), config.width, config.norm));
      if (config.head == Head::kNone)
        stack.Add(stream.set, std::make_unique<NormStep>(std::move(norm)));
      else if (stream.set == answered.set)
        stack.SetNorm(std::move(norm));
    }
    stack.SetAnswered(answered.set);
    if (config.head == Head::kNone) AddBoth(config, streams, stack);
    return absl::OkStatus();
  }

  // The rows of both streams one after another.
  static void AddBoth(const ModelConfig& config, const Streams& streams, Stack& stack) {
    const int both =
        stack.AddSet({.count = RowCount::OfBoth(), .input = WorkInput::kNone, .width = config.width});
    for (const Stream& stream : streams)
      stack.AddMove(both, stream.set, std::make_unique<TakeRows>(stream.kind == EtcStream::kGlobal));
  }

  Options options_;
};

void CheckLayers(JsonFields& fields, const ModelConfig& config) {
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const Json& attention = config.layers[i].attention;
    if (!attention.is_object() || attention.value("type", Json()) != "etc")
      fields.Fail(Cat("layers[", i, "].attention is not of type \"etc\", as all of an etc-encoder are"));
    if (config.layers[i].parallel || config.layers[i].scaled || config.layers[i].norm ||
        config.layers[i].attention_norm || config.layers[i].convolution_kernel > 0 ||
        config.layers[i].keys_of)
      fields.Fail(
          Cat("layers[", i,
              "]: parallel, layer_scale, norm, attention_norm, convolution and keys_of are no keys of an "
              "etc-encoder's layers"));
  }
}

}  // namespace

std::shared_ptr<const StackRecipe> ReadEtcStack(JsonFields& fields, ModelConfig& config) {
  EtcStack::Options options{.input = {.read = true}};
  config.RequireTokens(fields);
  config.layers = ReadLayers(fields, "layers", /*cross=*/false);
  CheckLayers(fields, config);
  options.share_ffn = fields.Bool("share_ffn", true);
  options.input.tokens_per_global = fields.Int("tokens_per_global", 0, 0, kMostTokensPerGlobal);
  options.input.token =
      static_cast<int32_t>(fields.Int("global_token", -1, 0, std::max<int64_t>(config.vocab_size, 1) - 1));
  const std::string head = fields.Choice("head", {"none", "lm", "classification", "token_classification"});
  if (head == "none" && fields.Has("pooling"))
    fields.Fail("pooling: with head \"none\" the answer is the rows of both streams");
  return std::make_shared<EtcStack>(options);
}

}  // namespace heed
