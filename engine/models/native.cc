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
struct SetPlan {
  const std::vector<LayerConfig>& layers;
  std::string key;  // of the layers in config.json
  WorkInput input = WorkInput::kTokens;
  bool causal = false;          // and so remembered
  int source = Stack::kItself;  // the set that cross-attention reads
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

// How a layer's sublayers stand in the residual stream. Of two streams (Gomez et al. 2017, as in the
// Reformer, Kitaev et al. 2020) x1 += attention(norm1(x2)), then x2 += ffn(norm2(x1)).
ResidualOptions ResidualOf(const ModelConfig& config, bool attention) {
  const int64_t second = config.reversible ? config.width : 0;
  return {.width = config.width,
          .norm = config.norm,
          .read_column = attention ? second : 0,
          .write_column = attention ? 0 : second};
}

// The layer's feed-forward, if it has one.
absl::Status AddFeedForward(const ModelConfig& config, std::string where, const Json& options,
                            const WeightScope& scope, Precision precision, int set, Stack& stack) {
  const FeedForwardSetting setting{.width = config.width,
                                   .hidden = config.intermediate_size,
                                   .act = config.act,
                                   .num_heads = config.num_heads,
                                   .precision = precision,
                                   .where = std::move(where)};
  JsonFields fields(options, setting.where);
  ASSIGN_OR_RETURN(auto feed_forward, NewFeedForward(setting, fields, scope / "ffn"));
  if (!feed_forward) return absl::OkStatus();
  ASSIGN_OR_RETURN(FeedForwardSublayer sublayer,
                   FeedForwardSublayer::Load(std::move(feed_forward), scope / "norm2",
                                             ResidualOf(config, /*attention=*/false)));
  stack.Add(set, std::make_unique<FeedForwardStep>(std::move(sublayer)));
  return absl::OkStatus();
}

absl::Status AddLayer(const ModelConfig& config, const SetPlan& plan, int i, const WeightScope& scope,
                      Precision precision, int set, Stack& stack) {
  const LayerConfig& layer = plan.layers[i];
  const auto add = [&](const std::string& name, const std::string& norm,
                       const Json& options) -> absl::Status {
    const bool cross = &options == &layer.cross_attention;
    AttentionSetting setting{.causal = plan.causal && !cross, .cross = cross, .precision = precision};
    setting.where = Cat("config.json: ", plan.key, "[", i, "].", name);
    ASSIGN_OR_RETURN(auto attention, LoadAttention(config, setting, options, scope / name));
    ASSIGN_OR_RETURN(AttentionSublayer sublayer,
                     AttentionSublayer::Load(std::move(attention), scope / name, scope / norm,
                                             ResidualOf(config, /*attention=*/true), precision));
    stack.AddAttention(set, std::move(sublayer), cross ? plan.source : Stack::kItself);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add("attention", "norm1", layer.attention));
  if (!layer.cross_attention.is_null()) {
    RETURN_IF_ERROR(add("cross_attention", "norm_cross", layer.cross_attention));
  }
  return AddFeedForward(config, Cat("config.json: ", plan.key, "[", i, "].ffn"), layer.feed_forward, scope,
                        precision, set, stack);
}

// The embeddings that the rows of a set begin with.
struct Embedded {
  Tensor tokens;      // the table, for a tied head
  int64_t bytes = 0;  // of all tables
};

// Appends a set and its layers. `norm`: the one after them, if their norms come first.
absl::StatusOr<Embedded> AddLayers(const ModelConfig& config, const SetPlan& plan, const WeightScope& scope,
                                   Precision precision, Stack& stack, std::optional<Norm>* norm) {
  const int64_t width = config.reversible ? 2 * config.width : config.width;
  const int set = stack.AddSet(plan.input, width, plan.causal);
  ASSIGN_OR_RETURN(Embedding embedding,
                   Embedding::Load(scope, {config.vocab_size, config.width, config.embedding_scale,
                                           config.positions, config.max_positions}));
  const Embedded embedded{embedding.tokens(), embedding.bytes()};
  stack.Add(set, std::make_unique<EmbedStep>(std::move(embedding)));
  for (int i = 0; i < std::ssize(plan.layers); ++i) {
    RETURN_IF_ERROR(AddLayer(config, plan, i, scope / Cat("layers.", i), precision, set, stack));
  }
  if (config.norm.placement == NormPlacement::kPre) {
    ASSIGN_OR_RETURN(*norm, Norm::Load(scope / "norm", width, config.norm));
  }
  return embedded;
}

// The stack, its embeddings' bytes, and the table of the last set's tokens.
struct LoadedStack {
  Stack stack;
  Embedded embedded;
};

absl::StatusOr<LoadedStack> LoadStack(const ModelConfig& config, const WeightScope& scope,
                                      Precision precision) {
  LoadedStack loaded;
  Stack& stack = loaded.stack;
  SetPlan plan{config.layers, "layers", WorkInput::kTokens, config.architecture == Architecture::kDecoder};
  std::optional<Norm> norm;
  if (config.architecture != Architecture::kEncoderDecoder) {
    ASSIGN_OR_RETURN(loaded.embedded, AddLayers(config, plan, scope, precision, stack, &norm));
  } else {
    plan.input = WorkInput::kSource;
    ASSIGN_OR_RETURN(const Embedded source,
                     AddLayers(config, plan, scope / "encoder", precision, stack, &norm));
    if (norm) stack.Add(0, std::make_unique<NormStep>(*std::move(norm)));
    norm.reset();
    const SetPlan decoder{config.decoder_layers, "decoder_layers", WorkInput::kTokens, true, 0};
    ASSIGN_OR_RETURN(loaded.embedded, AddLayers(config, decoder, scope / "decoder", precision, stack, &norm));
    loaded.embedded.bytes += source.bytes;
  }
  if (norm) stack.SetNorm(*std::move(norm));
  return loaded;
}

absl::StatusOr<OutputHead> LoadHead(const ModelConfig& config, const WeightScope& scope,
                                    const LoadedStack& loaded, Precision precision) {
  const int64_t width = loaded.stack.width();
  OutputHead head{config.head, config.pooling, std::nullopt};
  PackedWeights::Part part;
  if (config.head == Head::kLanguageModel) {
    ASSIGN_OR_RETURN(part.weight, (scope / "lm_head").Optional("weight", {config.vocab_size, width}));
    ASSIGN_OR_RETURN(part.bias, (scope / "lm_head").Optional("bias", {config.vocab_size}));
    if (part.weight.data == nullptr && config.reversible)
      return Invalid("lm_head.weight: missing; with two streams it cannot be the embedding's");
    if (part.weight.data == nullptr) part.weight = loaded.embedded.tokens;
  } else if (config.head == Head::kClassification || config.head == Head::kTokenClassification) {
    ASSIGN_OR_RETURN(part.weight, (scope / "classifier").Get("weight", {config.num_labels, width}));
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

// Those of the set that the head reads, whose layers these are.
std::vector<AttentionInfo> AttentionsOf(const std::vector<LayerConfig>& layers, const Stack& stack) {
  std::vector<const Attention*> answered;
  for (const Stack::Attend& attend : stack.attentions()) {
    if (attend.set == stack.answered()) answered.push_back(&attend.attention());
  }
  std::vector<AttentionInfo> attentions;
  const auto add = [&](const Json& fields, int layer, bool cross) {
    attentions.push_back({.type = fields.value("type", ""),
                          .layer = layer,
                          .cross = cross,
                          .weighing_heads = answered.at(attentions.size())->weighing_heads()});
  };
  for (int i = 0; i < std::ssize(layers); ++i) {
    add(layers[i].attention, i, /*cross=*/false);
    if (!layers[i].cross_attention.is_null()) add(layers[i].cross_attention, i, /*cross=*/true);
  }
  CHECK_EQ(attentions.size(), answered.size());
  return attentions;
}

int64_t Shorter(int64_t a, int64_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// The longest sequence of an input that all attentions that read it take, beside `longest`.
int64_t Longest(const Stack& stack, WorkInput input, int64_t longest) {
  for (const Stack::Attend& attend : stack.attentions()) {
    const RowSet& read = stack.sets()[attend.cross() ? attend.source : attend.set];
    if (read.input == input) longest = Shorter(longest, attend.attention().max_tokens());
  }
  return longest;
}

// How many global tokens a request may name: as many as every layer that reads them takes.
int64_t MostGlobalTokens(const Stack& stack) {
  int64_t most = 0;
  for (const Stack::Attend& attend : stack.attentions()) {
    const RowLabels& labels = attend.attention().labels();
    if (labels.kind == RowLabel::kGlobal) most = Shorter(most, labels.most);
  }
  return most;
}

// Of the attentions that sequences remember; none: nothing decodes.
DecodeClass DecodeOf(const Stack& stack) {
  if (!stack.sets()[stack.answered()].remembered) return DecodeClass::kNone;
  DecodeClass decode = DecodeClass::kExact;
  for (const Stack::Attend& attend : stack.attentions()) {
    if (stack.sets()[attend.set].remembered) decode = std::max(decode, attend.attention().decode());
  }
  return decode;
}

ModelInfo Describe(const ModelConfig& config, const LoadedStack& loaded, const OutputHead& head) {
  const Stack& stack = loaded.stack;
  const bool sources = config.architecture == Architecture::kEncoderDecoder;
  ModelInfo info;
  info.architecture = config.architecture;
  info.head = config.head;
  info.attention = AttentionNames(config);
  info.width = config.width;
  info.layers = static_cast<int>(config.layers.size() + config.decoder_layers.size());
  info.vocab_size = config.vocab_size;
  info.output_width = head.weights ? head.weights->out() : stack.width();
  info.max_tokens = Longest(stack, WorkInput::kTokens, config.max_positions);
  if (sources) info.max_source_tokens = Longest(stack, WorkInput::kSource, config.max_positions);
  info.decode = DecodeOf(stack);
  info.attentions = AttentionsOf(sources ? config.decoder_layers : config.layers, stack);
  info.max_global_tokens = MostGlobalTokens(stack);
  info.data_dependent = stack.data_dependent();
  info.normalize = config.normalize && config.head == Head::kEmbedding;
  info.labels = config.labels;
  info.multi_label = config.multi_label;
  info.eos_token_ids = config.eos_token_ids;
  info.bos_token_id = config.bos_token_id;
  info.pad_token_id = config.pad_token_id;
  info.mask_token_id = config.mask_token_id;
  info.decoder_start_token_id = config.decoder_start_token_id;
  info.weight_bytes = stack.weight_bytes() + (head.weights ? head.weights->bytes() : 0);
  info.embedding_bytes = loaded.embedded.bytes;
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
  ASSIGN_OR_RETURN(LoadedStack loaded, LoadStack(config, scope, precision));
  ASSIGN_OR_RETURN(OutputHead head, LoadHead(config, scope, loaded, precision));
  RETURN_IF_ERROR(scope.AllUsed());
  ModelInfo info = Describe(config, loaded, head);
  info.parameters = weights.parameters();
  info.precision = precision;
  ASSIGN_OR_RETURN(info.files, weights.Digests());
  ASSIGN_OR_RETURN(info.origin.model, Fingerprint(json, info.files));
  info.origin.precision = StatePrecision(precision);
  return std::make_unique<Transformer>(std::move(info), std::move(loaded.stack), std::move(head));
}

}  // namespace heed
