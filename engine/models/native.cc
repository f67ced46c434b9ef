#include "engine/models/native.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/log/check.h"
#include "engine/base/digest.h"
#include "engine/base/status.h"
#include "engine/models/config.h"
#include "engine/models/transformer.h"

namespace heed {
namespace {

// Which layers, and how they stand in the model.
struct StackPlan {
  const std::vector<LayerConfig>& layers;
  std::string key;  // of the layers in config.json
  bool causal = false;
};

// The attention under `key` of a layer: "attention" or "cross_attention".
absl::StatusOr<std::unique_ptr<Attention>> LoadAttention(const ModelConfig& config, AttentionSetting setting,
                                                         const Json& options, const WeightScope& scope) {
  setting.width = config.width;
  setting.grid = config.grid;
  JsonFields fields(options, setting.where);
  setting.num_heads = static_cast<int>(fields.Int("num_heads", config.num_heads, 1, config.width));
  ASSIGN_OR_RETURN(std::unique_ptr<Attention> attention, NewAttention(setting, fields, scope));
  if (setting.causal && attention->decode() == DecodeClass::kNone) {
    return Invalid(setting.where, ": this attention cannot decode: it is for encoders only");
  }
  if (setting.cross &&
      std::ranges::none_of(attention->products(), [](const Product& p) { return p.of_source; })) {
    return Invalid(setting.where, ": this attention cannot read a source");
  }
  return attention;
}

// The layer's feed-forward, if it has one.
absl::Status AddFeedForward(const ModelConfig& config, std::string where, const Json& options,
                            const WeightScope& scope, Precision precision, Step& step) {
  const FeedForwardSetting setting{.width = config.width,
                                   .hidden = config.intermediate_size,
                                   .act = config.act,
                                   .num_heads = config.num_heads,
                                   .precision = precision,
                                   .where = std::move(where)};
  JsonFields fields(options, setting.where);
  ASSIGN_OR_RETURN(auto feed_forward, NewFeedForward(setting, fields, scope / "ffn"));
  if (!feed_forward) return absl::OkStatus();
  ASSIGN_OR_RETURN(step.feed_forward, FeedForwardSublayer::Load(std::move(feed_forward), scope / "norm2",
                                                                config.width, config.norm));
  return absl::OkStatus();
}

// Appends the layer's steps: one, or two with cross-attention, the feed-forward with the last.
absl::Status AddLayer(const ModelConfig& config, const StackPlan& plan, int i, const WeightScope& scope,
                      Precision precision, std::vector<Step>& steps) {
  const LayerConfig& layer = plan.layers[i];
  const auto add = [&](const std::string& name, const std::string& norm,
                       const Json& options) -> absl::Status {
    const bool cross = &options == &layer.cross_attention;
    AttentionSetting setting{.causal = plan.causal && !cross, .cross = cross, .precision = precision};
    setting.where = Cat("config.json: ", plan.key, "[", i, "].", name);
    ASSIGN_OR_RETURN(auto attention, LoadAttention(config, setting, options, scope / name));
    ASSIGN_OR_RETURN(AttentionSublayer sublayer,
                     AttentionSublayer::Load(std::move(attention), scope / name, scope / norm, config.width,
                                             config.norm, precision));
    steps.push_back({std::move(sublayer), std::nullopt});
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add("attention", "norm1", layer.attention));
  if (!layer.cross_attention.is_null()) {
    RETURN_IF_ERROR(add("cross_attention", "norm_cross", layer.cross_attention));
  }
  return AddFeedForward(config, Cat("config.json: ", plan.key, "[", i, "].ffn"), layer.feed_forward, scope,
                        precision, steps.back());
}

absl::StatusOr<Stack> LoadStack(const ModelConfig& config, const StackPlan& plan, const WeightScope& scope,
                                Precision precision) {
  Stack stack;
  ASSIGN_OR_RETURN(stack.embedding,
                   Embedding::Load(scope, {config.vocab_size, config.width, config.embedding_scale,
                                           config.positions, config.max_positions}));
  for (int i = 0; i < std::ssize(plan.layers); ++i) {
    RETURN_IF_ERROR(AddLayer(config, plan, i, scope / Cat("layers.", i), precision, stack.steps));
  }
  if (config.norm.placement == NormPlacement::kPre) {
    ASSIGN_OR_RETURN(stack.norm, Norm::Load(scope / "norm", config.width, config.norm));
  }
  stack.Measure(config.width);
  return stack;
}

absl::StatusOr<OutputHead> LoadHead(const ModelConfig& config, const WeightScope& scope,
                                    const Embedding& embedding, Precision precision) {
  OutputHead head{config.head, config.pooling, std::nullopt};
  PackedWeights::Part part;
  if (config.head == Head::kLanguageModel) {
    ASSIGN_OR_RETURN(part.weight, (scope / "lm_head").Optional("weight", {config.vocab_size, config.width}));
    ASSIGN_OR_RETURN(part.bias, (scope / "lm_head").Optional("bias", {config.vocab_size}));
    if (part.weight.data == nullptr) part.weight = embedding.tokens();
  } else if (config.head == Head::kClassification || config.head == Head::kTokenClassification) {
    ASSIGN_OR_RETURN(part.weight, (scope / "classifier").Get("weight", {config.num_labels, config.width}));
    ASSIGN_OR_RETURN(part.bias, (scope / "classifier").Get("bias", {config.num_labels}));
  }
  // A few labels cost nothing in f32, and their scores keep the digits that reduced precision has left.
  if (config.head != Head::kLanguageModel) precision = Precision::kF32;
  if (part.weight.data != nullptr) head.weights = PackedWeights::Pack({part}, precision);
  return head;
}

std::string AttentionNames(const ModelConfig& config) {
  std::string names;
  std::set<std::string> seen;
  const auto add = [&](const Json& attention) {
    std::string type = attention.value("type", "");
    if (seen.insert(type).second) names += (names.empty() ? "" : "+") + type;
  };
  for (const auto* layers : {&config.layers, &config.decoder_layers}) {
    for (const LayerConfig& layer : *layers) {
      add(layer.attention);
      if (!layer.cross_attention.is_null()) add(layer.cross_attention);
    }
  }
  return names;
}

// A stack's, step by step.
std::vector<AttentionInfo> AttentionsOf(const std::vector<LayerConfig>& layers, const Stack& stack) {
  std::vector<AttentionInfo> attentions;
  const auto add = [&](const Json& fields, int layer, bool cross) {
    const Attention& attention = stack.steps[attentions.size()].attention.attention();
    attentions.push_back({.type = fields.value("type", ""),
                          .layer = layer,
                          .cross = cross,
                          .weighing_heads = attention.weighing_heads()});
  };
  for (int i = 0; i < std::ssize(layers); ++i) {
    add(layers[i].attention, i, /*cross=*/false);
    if (!layers[i].cross_attention.is_null()) add(layers[i].cross_attention, i, /*cross=*/true);
  }
  CHECK_EQ(attentions.size(), stack.steps.size());
  return attentions;
}

int64_t Shorter(int64_t a, int64_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// The longest sequence that the attentions of a stack read, beside `longest`: as rows, or as source.
int64_t Longest(const Stack& stack, bool source, int64_t longest) {
  for (const Step& step : stack.steps) {
    if (step.attention.cross() == source) longest = Shorter(longest, step.attention.attention().max_tokens());
  }
  return longest;
}

// How many global tokens a request may name for a stack: as many as every layer that reads them takes.
int64_t MostGlobalTokens(const Stack& stack) {
  int64_t most = 0;
  for (const Step& step : stack.steps) {
    const RowLabels& labels = step.attention.attention().labels();
    if (labels.kind == RowLabel::kGlobal) most = Shorter(most, labels.most);
  }
  return most;
}

DecodeClass DecodeOf(const Stack& stack) {
  DecodeClass decode = DecodeClass::kExact;
  for (const Step& step : stack.steps) decode = std::max(decode, step.attention.attention().decode());
  return decode;
}

bool IsDataDependent(const Stack& stack) {
  return std::ranges::any_of(stack.steps, [](const Step& step) {
    return step.attention.attention().data_dependent() ||
           (step.feed_forward && step.feed_forward->feed_forward().data_dependent());
  });
}

// Of an encoder-decoder `encoder` and `stack`, of the others `stack` alone.
ModelInfo Describe(const ModelConfig& config, const std::optional<Stack>& encoder, const Stack& stack,
                   const OutputHead& head) {
  ModelInfo info;
  info.architecture = config.architecture;
  info.head = config.head;
  info.attention = AttentionNames(config);
  info.width = config.width;
  info.layers = static_cast<int>(config.layers.size() + config.decoder_layers.size());
  info.vocab_size = config.vocab_size;
  info.output_width = head.weights ? head.weights->out() : config.width;
  info.max_tokens = Longest(stack, /*source=*/false, config.max_positions);
  if (encoder) {
    info.max_source_tokens =
        Longest(stack, /*source=*/true, Longest(*encoder, /*source=*/false, config.max_positions));
  }
  info.decode = config.architecture == Architecture::kEncoder ? DecodeClass::kNone : DecodeOf(stack);
  info.attentions = AttentionsOf(encoder ? config.decoder_layers : config.layers, stack);
  info.max_global_tokens = MostGlobalTokens(encoder ? *encoder : stack);
  info.data_dependent = IsDataDependent(stack) || (encoder && IsDataDependent(*encoder));
  info.normalize = config.normalize && config.head == Head::kEmbedding;
  info.labels = config.labels;
  info.multi_label = config.multi_label;
  info.eos_token_ids = config.eos_token_ids;
  info.bos_token_id = config.bos_token_id;
  info.pad_token_id = config.pad_token_id;
  info.mask_token_id = config.mask_token_id;
  info.decoder_start_token_id = config.decoder_start_token_id;
  info.weight_bytes = (encoder ? encoder->weight_bytes() : 0) + stack.weight_bytes() +
                      (head.weights ? head.weights->bytes() : 0);
  info.embedding_bytes = (encoder ? encoder->embedding.bytes() : 0) + stack.embedding.bytes();
  info.byte_tokens = config.byte_tokens;
  return info;
}

// The configuration as a whole and the weights' files: what else would tell one model's states from
// another's?
absl::StatusOr<std::string> Fingerprint(const Json& config, const std::vector<FileDigest>& files) {
  std::string all = CanonicalText(config);
  for (const FileDigest& file : files) all += file.sha256;
  ASSIGN_OR_RETURN(const std::string digest, Sha256(all));
  return digest.substr(0, 16);
}

// States hold numbers in the activations' type, which in int8 is the CPU's affair.
std::string StatePrecision(Precision precision) {
  const std::string name(Name(precision));
  return precision == Precision::kInt8 ? Cat(name, " with ", Name(ActivationType(precision))) : name;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> NewNativeModel(const Json& json, const Weights& weights,
                                                            const LoadOptions& options) {
  ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfig(json));
  if (config.byte_tokens && config.vocab_size < 256) {
    return Invalid("config.json: vocab_size ", config.vocab_size,
                   " is below 256, which tokenizer \"bytes\" needs");
  }
  Precision precision = Supported(options.precision);
  WeightScope scope(weights);
  std::optional<Stack> encoder;
  StackPlan plan{config.layers, "layers", config.architecture == Architecture::kDecoder};
  if (config.architecture == Architecture::kEncoderDecoder) {
    ASSIGN_OR_RETURN(encoder, LoadStack(config, plan, scope / "encoder", precision));
  }
  const StackPlan decoder{config.decoder_layers, "decoder_layers", true};
  ASSIGN_OR_RETURN(Stack stack, LoadStack(config, encoder ? decoder : plan,
                                          encoder ? scope / "decoder" : scope, precision));
  ASSIGN_OR_RETURN(OutputHead head, LoadHead(config, scope, stack.embedding, precision));
  RETURN_IF_ERROR(scope.AllUsed());
  ModelInfo info = Describe(config, encoder, stack, head);
  info.parameters = weights.parameters();
  info.precision = precision;
  ASSIGN_OR_RETURN(info.files, weights.Digests());
  ASSIGN_OR_RETURN(info.origin.model, Fingerprint(json, info.files));
  info.origin.precision = StatePrecision(precision);
  return std::make_unique<Transformer>(std::move(info), std::move(encoder), std::move(stack),
                                       std::move(head));
}

}  // namespace heed
