#include "engine/models/config.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>

#include "engine/base/status.h"
#include "engine/models/stack_recipe.h"

namespace heed {
namespace {

constexpr int64_t kMaxWidth = 1 << 16;
constexpr int64_t kMaxVocabulary = 1 << 24;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxPositions = int64_t{1} << 31;
constexpr int64_t kMaxLabels = 1 << 20;
constexpr int64_t kMaxAxes = 8;
constexpr int64_t kMaxTypes = 1 << 16;
constexpr int64_t kMaxHeadLayers = 64;
constexpr int64_t kMaxKernel = 63;

// Written by Hugging Face's tools or repeated from elsewhere; no number depends on them. Whether biases and a
// head of its own are there, the weights' file says.
constexpr const char* kWithoutEffect[] = {
    "architectures", "transformers_version", "torch_dtype",         "dtype",
    "_name_or_path", "attention_bias",       "tie_word_embeddings", "label2id"};

// The name of the stack; what it is to those who ask.
const StackRecipeEntry& ReadArchitecture(JsonFields& fields, ModelConfig& config) {
  std::vector<std::string> names;
  for (const StackRecipeEntry& entry : StackRecipes()) names.push_back(entry.name);
  const std::string name = fields.Choice("architecture", names);
  if (!fields.Has("architecture")) fields.Fail("architecture is missing");
  config.architecture = name == "encoder-decoder"   ? Architecture::kEncoderDecoder
                        : name.ends_with("decoder") ? Architecture::kDecoder
                                                    : Architecture::kEncoder;
  return *std::ranges::find(StackRecipes(), name, &StackRecipeEntry::name);
}

void ReadShape(JsonFields& fields, ModelConfig& config) {
  config.vocab_size = fields.Int("vocab_size", 0, 1, kMaxVocabulary);
  config.width = fields.RequiredInt("hidden_size", 1, kMaxWidth);
  config.num_heads = static_cast<int>(fields.RequiredInt("num_attention_heads", 1, config.width));
  config.intermediate_size = fields.Int("intermediate_size", 0, 1, 16 * kMaxWidth);
  config.grid = fields.Ints("shape", 1, kMaxAxes, 1, kMaxPositions);
  if (config.grid.empty() && (fields.Has("height") || fields.Has("width"))) {
    config.grid = {fields.RequiredInt("height", 1, kMaxPositions),
                   fields.RequiredInt("width", 1, kMaxPositions)};
  }
}

struct NamedPlacement {
  std::string_view name;
  NormPlacement placement;
};
constexpr NamedPlacement kPlacements[] = {
    {"pre", NormPlacement::kPre},          {"post", NormPlacement::kPost},
    {"res_post", NormPlacement::kResPost}, {"sandwich", NormPlacement::kSandwich},
    {"normed", NormPlacement::kNormed},    {"none", NormPlacement::kNone}};

// One of `allowed`, which begin with the default.
NormPlacement ReadPlacement(JsonFields& fields, std::string_view key,
                            std::span<const NamedPlacement> allowed) {
  std::vector<std::string> names;
  for (const NamedPlacement& known : allowed) names.emplace_back(known.name);
  const std::string name = fields.Choice(key, names);
  return std::ranges::find(allowed, name, &NamedPlacement::name)->placement;
}

void ReadNorm(JsonFields& fields, ModelConfig& config) {
  // Without any norm is a layer's affair.
  config.norm.placement =
      ReadPlacement(fields, "norm", std::span(kPlacements).first(std::size(kPlacements) - 1));
  config.norm.type =
      fields.Choice("norm_type", {"layer", "rms"}) == "rms" ? NormType::kRms : NormType::kLayer;
  config.norm.eps = static_cast<float>(fields.Number("layer_norm_eps", 1e-5, 0, 1));
  config.norm.weight = fields.Bool("norm_weight", true);
  config.norm.bias = fields.Bool("norm_bias", config.norm.weight);
  config.norm_last = NormsInput(config.norm.placement) || config.norm.placement == NormPlacement::kNormed;
  config.norm.weight_offset = static_cast<float>(fields.Number("norm_offset", 0, -1e3, 1e3));
}

void ReadResidual(JsonFields& fields, ModelConfig& config) {
  config.residual_multiplier = static_cast<float>(fields.Number("residual_multiplier", 1, -1e6, 1e6));
}

// An activation without a gate, or none.
Activation ReadActivation(JsonFields& fields, const char* of) {
  fields.Ignore("hidden_act");
  if (!fields.Has("hidden_act")) return Activation::kNone;
  const absl::StatusOr<HiddenAct> act = ParseHiddenAct(fields.String("hidden_act", ""));
  if (!act.ok()) fields.Fail(std::string(act.status().message()));
  if (!act.ok()) return Activation::kNone;
  if (act->gated) fields.Fail(Cat("hidden_act: ", Shown(fields.Raw("hidden_act")), " has a gate; ", of));
  return act->activation;
}

void ReadConvolution(JsonFields& fields, LayerConfig& layer) {
  const Json& given = fields.Raw("convolution");
  if (given.is_null()) return;
  if (!given.is_object()) return fields.Fail("convolution is not an object");
  JsonFields own(given, fields.Name("convolution"));
  layer.convolution_kernel = own.RequiredInt("kernel", 1, kMaxKernel);
  layer.convolution_activation = ReadActivation(own, "a convolution has none");
  if (layer.convolution_kernel % 2 == 0)
    own.Fail(Cat("kernel: ", layer.convolution_kernel, " is even: no row is in its middle"));
  fields.Fail(own.Finish());
}

// How a layer stands in the residual stream, where that is not as the model's do.
void ReadStanding(JsonFields& fields, LayerConfig& layer) {
  if (fields.Has("norm")) layer.norm = ReadPlacement(fields, "norm", kPlacements);
  if (fields.Has("attention_norm"))
    layer.attention_norm = ReadPlacement(fields, "attention_norm", kPlacements);
  fields.Ignore("norm");
  fields.Ignore("attention_norm");
  layer.parallel = fields.Bool("parallel", false);
  layer.scaled = fields.Bool("layer_scale", false);
  if (fields.Has("keys_of")) layer.keys_of = fields.RequiredInt("keys_of", 0, kMaxLayers);
  fields.Ignore("keys_of");
  if (layer.parallel && fields.Has("cross_attention"))
    fields.Fail("parallel: true; of a layer with a cross_attention, which reads what its attention gave");
}

void ReadEmbedding(JsonFields& fields, ModelConfig& config) {
  // 0 means "not scaled", as in the definition.
  double scale = fields.Number("embedding_scale", 1, -1e6, 1e6);
  config.embedding_scale = scale == 0 ? 1 : static_cast<float>(scale);
  std::string positions = fields.Choice("positions", {"none", "learned", "sinusoidal"});
  config.positions = positions == "learned"      ? Positions::kLearned
                     : positions == "sinusoidal" ? Positions::kSinusoidal
                                                 : Positions::kNone;
  config.max_positions = fields.Int("max_position_embeddings", 0, 0, kMaxPositions);
  config.max_seq_length = fields.Int("max_seq_length", 0, 0, kMaxPositions);
}

HeadLayerConfig ReadHeadLayer(const Json& json, const std::string& where, int64_t width, JsonFields& fields) {
  JsonFields own(json, where);
  HeadLayerConfig layer;
  layer.width = own.Int("width", width, 1, kMaxWidth);
  layer.norm = own.Bool("norm", false);
  layer.activation = ReadActivation(own, "a head's layers have none");
  fields.Fail(own.Finish());
  return layer;
}

void ReadHeadLayers(JsonFields& fields, ModelConfig& config) {
  const Json& layers = fields.Raw("head_layers");
  if (layers.is_null()) return;
  if (!layers.is_array()) return fields.Fail("head_layers is not a list");
  if (std::ssize(layers) > kMaxHeadLayers) {
    return fields.Fail(
        Cat("head_layers: ", layers.size(), " layers; at most ", kMaxHeadLayers, " can be served"));
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string where = Cat(fields.Name("head_layers"), "[", i, "]");
    config.head_layers.push_back(ReadHeadLayer(layers[i], where, config.width, fields));
  }
}

void ReadHeadClusters(JsonFields& fields, ModelConfig& config) {
  config.head_clusters = ReadTokenClusters("head_clusters", config.vocab_size, config.width, fields);
  if (config.head_clusters.empty()) return;
  if (config.head != Head::kLanguageModel) fields.Fail("head_clusters: of head \"lm\" alone");
  if (!config.head_layers.empty()) fields.Fail("head_clusters: of a head without head_layers");
}

void ReadLatePooling(JsonFields& fields, ModelConfig& config) {
  config.late_pooling = fields.Bool("late_pooling", false);
  if (!config.late_pooling) return;
  if (config.pooling == Pooling::kNone) fields.Fail("late_pooling: true, of a head that does not pool");
  for (const HeadLayerConfig& layer : config.head_layers) {
    if (layer.width != config.width)
      fields.Fail(Cat("late_pooling: true, of head_layers as wide as the rows, ", config.width, "; one has ",
                      layer.width));
  }
}

void ReadLogits(JsonFields& fields, ModelConfig& config) {
  config.logits_scale = static_cast<float>(fields.Number("logits_scale", 1, -1e6, 1e6));
  config.logits_soft_cap = static_cast<float>(fields.Number("logits_soft_cap", 0, 1e-3, 1e6));
}

void ReadPooling(JsonFields& fields, ModelConfig& config) {
  static const auto& kinds = *new std::map<std::string, Pooling>{{"first", Pooling::kFirst},
                                                                 {"mean", Pooling::kMean},
                                                                 {"last", Pooling::kLast},
                                                                 {"max", Pooling::kMax},
                                                                 {"mean_sqrt_len", Pooling::kMeanSqrtLen},
                                                                 {"weighted_mean", Pooling::kWeightedMean},
                                                                 {"last_token_not", Pooling::kLastTokenNot},
                                                                 {"last_token", Pooling::kLastToken}};
  fields.Ignore("pooling");
  if (!fields.Has("pooling")) return;
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds) names.push_back(name);
  config.pooling = kinds.at(fields.Choice("pooling", names));
  if (SeeksToken(config.pooling))
    config.pooling_token = static_cast<int32_t>(
        fields.RequiredInt("pooling_token", 0, std::max<int64_t>(config.vocab_size - 1, 0)));
}

void ReadHead(JsonFields& fields, ModelConfig& config) {
  std::string head = fields.Has("head") ? "" : config.default_head;
  if (head.empty()) head = fields.Choice("head", {"none", "lm", "classification", "token_classification"});
  fields.Ignore("head");
  ReadPooling(fields, config);
  config.normalize = fields.Bool("normalize", false);
  bool labelled = head == "classification" || head == "token_classification";
  if (labelled) config.num_labels = fields.RequiredInt("num_labels", 1, kMaxLabels);
  fields.Ignore("num_labels");
  config.head = head == "lm"                       ? Head::kLanguageModel
                : head == "classification"         ? Head::kClassification
                : head == "token_classification"   ? Head::kTokenClassification
                : config.pooling != Pooling::kNone ? Head::kEmbedding
                                                   : Head::kNone;
  if (head == "classification" && config.pooling == Pooling::kNone) config.pooling = config.class_pooling;
  if (head == "lm" || head == "token_classification") config.pooling = Pooling::kNone;
  if (config.architecture == Architecture::kEncoderDecoder && head != "lm") {
    fields.Fail(Cat("head: '", head, "'; of encoder-decoders those with head \"lm\" are served"));
  }
}

void ReadTokenIds(JsonFields& fields, ModelConfig& config) {
  int64_t last = std::max<int64_t>(config.vocab_size - 1, 0);
  config.bos_token_id = static_cast<int32_t>(fields.Int("bos_token_id", -1, 0, last));
  config.pad_token_id = static_cast<int32_t>(fields.Int("pad_token_id", -1, 0, last));
  config.mask_token_id = static_cast<int32_t>(fields.Int("mask_token_id", -1, 0, last));
  config.decoder_start_token_id = static_cast<int32_t>(fields.Int("decoder_start_token_id", -1, 0, last));
  const Json& eos = fields.Raw("eos_token_id");
  for (const Json& id : eos.is_array() ? eos : eos.is_null() ? Json::array() : Json::array({eos})) {
    if (!id.is_number_integer() || id < 0 || id > last) {
      return fields.Fail(Cat("eos_token_id: ", id.dump(), " is not an id in 0 .. ", last));
    }
    config.eos_token_ids.push_back(id.get<int32_t>());
  }
}

void ReadLabels(JsonFields& fields, ModelConfig& config) {
  const Json& names = fields.Raw("id2label");
  if (!names.is_null() && !names.is_object()) return fields.Fail("id2label is not an object");
  for (int64_t i = 0; i < config.num_labels; ++i) {
    std::string key = Cat(i);
    bool named = names.is_object() && names.contains(key);
    if (named && !names[key].is_string()) return fields.Fail(Cat("id2label.", key, " is not a string"));
    config.labels.push_back(named ? names[key].get<std::string>() : Cat("LABEL_", i));
  }
  config.multi_label =
      fields.Choice("problem_type", {"single_label_classification", "multi_label_classification"}) ==
      "multi_label_classification";
}

}  // namespace

void ModelConfig::RequireTokens(JsonFields& fields) const {
  if (vocab_size == 0) fields.Fail("vocab_size is missing");
  RequirePositions(fields);
}

void ModelConfig::RequirePositions(JsonFields& fields) const {
  if (positions == Positions::kLearned && max_positions == 0)
    fields.Fail("max_position_embeddings must be at least 1 with learned positions");
}

void ReadEmbeddingTables(JsonFields& fields, ModelConfig& config) {
  config.embedding_size = fields.Int("embedding_size", config.width, 1, config.width);
  const std::string projection = fields.Choice("embedding_projection", {"last", "before_norm", "tokens"});
  if (fields.Has("embedding_projection") || config.embedding_size != config.width) {
    config.embedding_projection = projection == "tokens"        ? EmbeddingProjection::kTokens
                                  : projection == "before_norm" ? EmbeddingProjection::kBeforeNorm
                                                                : EmbeddingProjection::kLast;
  }
  config.embedding_clusters =
      ReadTokenClusters("embedding_clusters", config.vocab_size, config.width, fields);
  if (!config.embedding_clusters.empty()) {
    if (fields.Has("embedding_size") || fields.Has("embedding_projection"))
      fields.Fail("embedding_clusters: of an embedding without embedding_size and embedding_projection");
    if (config.architecture == Architecture::kEncoderDecoder)
      fields.Fail("embedding_clusters: of an encoder or a decoder");
    config.embedding_projection = EmbeddingProjection::kTokens;
  }
  config.embedding_norm = fields.Bool("embedding_norm", false);
  config.embedding_norm_of_tokens = fields.Choice("embedding_norm_of", {"all", "tokens"}) == "tokens";
  config.decoder_embedding_norm_of_tokens = config.embedding_norm_of_tokens;
  if (config.embedding_norm_of_tokens && config.embedding_projection != EmbeddingProjection::kNone)
    fields.Fail("embedding_norm_of: \"tokens\", of an embedding without a projection");
  config.type_vocab_size = fields.Int("type_vocab_size", 0, 0, kMaxTypes);
}

void ReadDecoderKeys(JsonFields& fields, ModelConfig& config) {
  config.decoder_max_positions =
      fields.Int("decoder_max_position_embeddings", config.max_positions, 1, kMaxPositions);
  if (fields.Has("decoder_embedding_norm_of"))
    config.decoder_embedding_norm_of_tokens =
        fields.Choice("decoder_embedding_norm_of", {"all", "tokens"}) == "tokens";
  fields.Ignore("decoder_embedding_norm_of");
  config.decoder_width = fields.Int("decoder_hidden_size", config.width, 1, kMaxWidth);
  const double scale = fields.Number("decoder_embedding_scale", config.embedding_scale, -1e6, 1e6);
  config.decoder_embedding_scale = scale == 0 ? 1 : static_cast<float>(scale);  // as the encoder's
  if (config.decoder_width != config.width && config.embedding_projection != EmbeddingProjection::kNone)
    fields.Fail(Cat("decoder_hidden_size: ", config.decoder_width,
                    ", another than hidden_size, of an embedding without a projection"));
  if (config.decoder_embedding_norm_of_tokens && config.embedding_projection != EmbeddingProjection::kNone)
    fields.Fail("decoder_embedding_norm_of: \"tokens\", of an embedding without a projection");
}

ModelConfig DecoderOf(const ModelConfig& config) {
  ModelConfig decoder = config;
  decoder.width = config.decoder_width;
  decoder.max_positions = config.decoder_max_positions;
  decoder.embedding_scale = config.decoder_embedding_scale;
  decoder.embedding_norm_of_tokens = config.decoder_embedding_norm_of_tokens;
  return decoder;
}

void ReadLastNorm(JsonFields& fields, ModelConfig& config) {
  config.norm_last = fields.Bool("norm_last", config.norm_last);
}

LayerConfig ReadLayer(const Json& json, const std::string& where, bool cross, JsonFields& fields,
                      const std::vector<std::string>& axes) {
  LayerConfig layer;
  JsonFields own(json, where);
  if (!axes.empty()) {
    if (!own.Has("axis")) own.Fail("axis is missing");
    layer.axis = own.Choice("axis", axes);
  }
  layer.attention = own.Raw("attention");
  if (!layer.attention.is_object()) own.Fail("attention is not an object");
  if (cross) {
    layer.cross_attention = own.Raw("cross_attention");
    if (!layer.cross_attention.is_object()) own.Fail("cross_attention is not an object");
  }
  layer.feed_forward = own.Has("ffn") ? own.Raw("ffn") : Json::object();
  own.Ignore("ffn");
  if (!layer.feed_forward.is_object()) own.Fail("ffn is not an object");
  ReadStanding(own, layer);
  ReadConvolution(own, layer);
  fields.Fail(own.Finish());
  return layer;
}

namespace {

// Whose keys and values layers read that have none: those of a layer whose attention is like theirs.
void CheckLentKeys(const std::vector<LayerConfig>& layers, const std::string& key, JsonFields& fields) {
  for (int64_t i = 0; i < std::ssize(layers); ++i) {
    const std::optional<int64_t>& of = layers[i].keys_of;
    if (!of) continue;
    const std::string where = Cat(key, "[", i, "].keys_of: ", *of);
    if (*of >= i || layers[*of].keys_of) {
      fields.Fail(Cat(where, " is no layer before it that has keys of its own"));
    } else if (layers[i].attention != layers[*of].attention ||
               layers[i].attention.value("type", Json()) != "softmax") {
      fields.Fail(Cat(where, ": both attentions must have the same options, and be of type \"softmax\""));
    }
  }
}

}  // namespace

std::vector<LayerConfig> ReadLayers(JsonFields& fields, const std::string& key, bool cross,
                                    const std::vector<std::string>& axes) {
  std::vector<LayerConfig> read;
  const Json& layers = fields.Raw(key);
  if (!layers.is_array()) {
    fields.Fail(key + " is not a list");
    return read;
  }
  if (layers.empty() || static_cast<int64_t>(layers.size()) > kMaxLayers) {
    fields.Fail(Cat(key, ": ", layers.size(), " layers; 1 .. ", kMaxLayers, " can be served"));
    return read;
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    read.push_back(ReadLayer(layers[i], Cat(fields.Name(key), "[", i, "]"), cross, fields, axes));
  }
  CheckLentKeys(read, key, fields);
  return read;
}

absl::StatusOr<ModelConfig> ParseModelConfig(const Json& json) {
  ModelConfig config;
  JsonFields fields(json, "config.json");
  fields.Choice("model_type", {"heed"});
  for (const char* key : kWithoutEffect) fields.Ignore(key);
  const StackRecipeEntry& stack = ReadArchitecture(fields, config);
  ReadShape(fields, config);
  absl::StatusOr<HiddenAct> act = ParseHiddenAct(fields.String("hidden_act", "gelu"));
  if (act.ok())
    config.act = *act;
  else
    fields.Fail(std::string(act.status().message()));
  ReadNorm(fields, config);
  ReadResidual(fields, config);
  ReadEmbedding(fields, config);
  config.recipe = stack.read(fields, config);
  ReadHead(fields, config);
  ReadHeadLayers(fields, config);
  ReadHeadClusters(fields, config);
  ReadLatePooling(fields, config);
  ReadLogits(fields, config);
  ReadTokenIds(fields, config);
  ReadLabels(fields, config);
  config.byte_tokens = fields.Has("tokenizer") && fields.Choice("tokenizer", {"bytes"}) == "bytes";
  fields.Ignore("tokenizer");
  RETURN_IF_ERROR(fields.Finish());
  return config;
}

}  // namespace heed
