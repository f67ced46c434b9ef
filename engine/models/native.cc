#include "engine/models/native.h"

#include <set>

#include "engine/base/status.h"
#include "engine/models/config.h"
#include "engine/models/transformer.h"

namespace heed {
namespace {

absl::StatusOr<std::unique_ptr<Attention>> LoadAttention(const ModelConfig& config, const LayerConfig& layer,
                                                         int i, const WeightScope& scope,
                                                         Precision precision) {
  AttentionSetting setting;
  setting.width = config.width;
  setting.causal = config.architecture == Architecture::kDecoder;
  setting.precision = precision;
  setting.where = Cat("config.json: layers[", i, "].attention");
  JsonFields fields(layer.attention, setting.where);
  setting.num_heads = static_cast<int>(fields.Int("num_heads", config.num_heads, 1, config.width));
  ASSIGN_OR_RETURN(std::unique_ptr<Attention> attention, NewAttention(setting, fields, scope));
  if (setting.causal && attention->decode() == DecodeClass::kNone) {
    return Invalid(setting.where, ": this attention cannot decode: it is for encoders only");
  }
  return attention;
}

absl::StatusOr<Step> LoadLayer(const ModelConfig& config, int i, const WeightScope& scope,
                               Precision precision) {
  const LayerConfig& layer = config.layers[i];
  ASSIGN_OR_RETURN(auto attention, LoadAttention(config, layer, i, scope / "attention", precision));
  ASSIGN_OR_RETURN(AttentionSublayer sublayer,
                   AttentionSublayer::Load(std::move(attention), scope / "attention", scope / "norm1",
                                           config.width, config.norm, precision));
  Step step{std::move(sublayer), std::nullopt};
  if (layer.ffn == "none") return step;
  ASSIGN_OR_RETURN(auto dense, NewDenseFeedForward(scope / "ffn", config.width, config.intermediate_size,
                                                   config.act, precision));
  ASSIGN_OR_RETURN(step.feed_forward,
                   FeedForwardSublayer::Load(std::move(dense), scope / "norm2", config.width, config.norm));
  return step;
}

absl::StatusOr<Stack> LoadStack(const ModelConfig& config, const WeightScope& scope, Precision precision) {
  Stack stack;
  ASSIGN_OR_RETURN(stack.embedding,
                   Embedding::Load(scope, {config.vocab_size, config.width, config.embedding_scale,
                                           config.positions, config.max_positions}));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    ASSIGN_OR_RETURN(Step step, LoadLayer(config, static_cast<int>(i), scope / Cat("layers.", i), precision));
    stack.steps.push_back(std::move(step));
  }
  if (config.norm.placement == NormPlacement::kPre) {
    ASSIGN_OR_RETURN(stack.norm, Norm::Load(scope / "norm", config.width, config.norm));
  }
  stack.Measure(config.width);
  return stack;
}

absl::StatusOr<OutputHead> LoadHead(const ModelConfig& config, const WeightScope& scope,
                                    const Embedding& embedding, Precision precision) {
  OutputHead head{config.head, config.pooling, config.normalize && config.head == Head::kEmbedding,
                  std::nullopt};
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
  for (const LayerConfig& layer : config.layers) {
    std::string type = layer.attention.value("type", "");
    if (seen.insert(type).second) names += (names.empty() ? "" : "+") + type;
  }
  return names;
}

int64_t Shorter(int64_t a, int64_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

ModelInfo Describe(const ModelConfig& config, const Stack& stack, const OutputHead& head,
                   const Weights& weights, Precision precision) {
  ModelInfo info;
  info.architecture = config.architecture;
  info.head = config.head;
  info.attention = AttentionNames(config);
  info.width = config.width;
  info.layers = static_cast<int>(config.layers.size());
  info.vocab_size = config.vocab_size;
  info.output_width = head.weights ? head.weights->out() : config.width;
  info.max_tokens = config.max_positions;
  info.decode = config.architecture == Architecture::kEncoder ? DecodeClass::kNone : DecodeClass::kExact;
  for (const Step& step : stack.steps) {
    const Attention& attention = step.attention.attention();
    info.max_tokens = Shorter(info.max_tokens, attention.max_tokens());
    if (info.decode == DecodeClass::kExact) info.decode = attention.decode();
  }
  info.labels = config.labels;
  info.multi_label = config.multi_label;
  info.eos_token_ids = config.eos_token_ids;
  info.bos_token_id = config.bos_token_id;
  info.pad_token_id = config.pad_token_id;
  info.mask_token_id = config.mask_token_id;
  info.parameters = weights.parameters();
  info.weight_bytes = stack.weight_bytes() + (head.weights ? head.weights->bytes() : 0);
  info.precision = precision;
  info.byte_tokens = config.byte_tokens;
  return info;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> NewNativeModel(const Json& json,
                                                            std::unique_ptr<Weights> weights,
                                                            const LoadOptions& options) {
  ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfig(json));
  if (config.byte_tokens && config.vocab_size < 256) {
    return Invalid("config.json: vocab_size ", config.vocab_size,
                   " is below 256, which tokenizer \"bytes\" needs");
  }
  Precision precision = Supported(options.precision);
  WeightScope scope(*weights);
  ASSIGN_OR_RETURN(Stack stack, LoadStack(config, scope, precision));
  ASSIGN_OR_RETURN(OutputHead head, LoadHead(config, scope, stack.embedding, precision));
  RETURN_IF_ERROR(scope.AllUsed());
  ModelInfo info = Describe(config, stack, head, *weights, precision);
  return std::make_unique<Transformer>(std::move(info), std::move(stack), std::move(head),
                                       std::move(weights));
}

}  // namespace heed
