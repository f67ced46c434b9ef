#include "engine/models/native.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/digest.h"
#include "engine/base/status.h"
#include "engine/models/config.h"
#include "engine/models/layers.h"
#include "engine/models/stack_recipe.h"
#include "engine/models/transformer.h"

namespace heed {
namespace {

// The layers before the last product; gives the width of what that reads.
absl::StatusOr<int64_t> AddHeadLayers(const ModelConfig& config, int64_t width, const WeightScope& scope,
                                      Precision precision, OutputHead& head) {
  // Layer norms, whatever the model's are.
  const NormOptions norm{.eps = config.norm.eps, .weight = config.norm.weight, .bias = config.norm.bias};
  for (size_t i = 0; i < config.head_layers.size(); ++i) {
    const HeadLayerConfig& of = config.head_layers[i];
    const std::string name = Cat("head_layers.", i);
    HeadLayer layer{.activation = of.activation};
    ASSIGN_OR_RETURN(layer.weights, LoadWeights(scope, name, of.width, width, precision));
    if (of.norm) {
      ASSIGN_OR_RETURN(layer.norm, Norm::Load(scope / name / "norm", of.width, norm));
    }
    head.layers.push_back(std::move(layer));
    width = of.width;
  }
  return width;
}

// The last product, of rows of such a width; without numbers if there is none.
absl::StatusOr<PackedWeights::Part> LastProduct(const ModelConfig& config, const Tensor& tied, int64_t width,
                                                const WeightScope& scope) {
  PackedWeights::Part part;
  if (config.head == Head::kLanguageModel) {
    ASSIGN_OR_RETURN(part.weight, (scope / "lm_head").Optional("weight", {config.vocab_size, width}));
    ASSIGN_OR_RETURN(part.bias, (scope / "lm_head").Optional("bias", {config.vocab_size}));
    if (part.weight.data == nullptr) part.weight = tied;
    if (part.weight.data == nullptr)
      return Invalid("lm_head.weight: missing, and it cannot be the embedding's, whose rows are narrower");
    if (part.weight.dim(1) != width) {
      return Invalid("lm_head.weight: missing, and it cannot be the embedding's, whose rows have ",
                     part.weight.dim(1), " numbers, where the head reads ", width);
    }
  } else if (config.head == Head::kClassification || config.head == Head::kTokenClassification) {
    ASSIGN_OR_RETURN(part.weight, (scope / "classifier").Get("weight", {config.num_labels, width}));
    ASSIGN_OR_RETURN(part.bias, (scope / "classifier").Get("bias", {config.num_labels}));
  }
  return part;
}

// Where they are of each row: they become the stack's last steps, and the norm before them too.
void MakeSteps(OutputHead& head, Stack& stack) {
  const int set = stack.answered();
  if (std::optional<Norm> norm = stack.TakeNorm())
    stack.Add(set, std::make_unique<NormStep>(*std::move(norm)));
  for (HeadLayer& layer : head.layers)
    stack.Add(set, std::make_unique<TransformStep>(std::move(layer.weights), layer.activation,
                                                   std::move(layer.norm)));
  head.layers.clear();
}

// What the configuration's head says, beside what the architecture has of it.
absl::StatusOr<OutputHead> LoadHead(const ModelConfig& config, const WeightScope& scope, LoadedStack& loaded,
                                    Precision precision) {
  OutputHead head = std::move(loaded.head);
  head.kind = config.head;
  head.pooling = config.pooling;
  head.pooling_token = config.pooling_token;
  if (SeeksToken(config.pooling) &&
      loaded.stack.sets()[loaded.stack.answered()].input != WorkInput::kTokens) {
    return Invalid("config.json: pooling: \"last_token", config.pooling == Pooling::kLastToken ? "" : "_not",
                   "\" is of rows that are the input's tokens");
  }
  head.scale = config.logits_scale;
  head.soft_cap = config.logits_soft_cap;
  if (!head.layers.empty()) {
    if (config.head_layers.empty()) return head;
    return Invalid("config.json: head_layers: ", config.head_layers.size(),
                   " layers, where the architecture has its own before the answer");
  }
  // A few labels cost nothing in f32, and their scores keep the digits that reduced precision has left.
  const bool labels = config.head == Head::kClassification || config.head == Head::kTokenClassification;
  if (labels) precision = Precision::kF32;
  if (config.late_pooling) precision = Precision::kF32;
  if (!config.head_clusters.empty()) {
    ASSIGN_OR_RETURN(head.clusters, AdaptiveSoftmax::Load(scope / "lm_head", loaded.stack.width(),
                                                          config.head_clusters, precision));
    return head;
  }
  ASSIGN_OR_RETURN(const int64_t width, AddHeadLayers(config, loaded.stack.width(), scope, precision, head));
  if (config.late_pooling) MakeSteps(head, loaded.stack);
  ASSIGN_OR_RETURN(const PackedWeights::Part part, LastProduct(config, loaded.tied, width, scope));
  if (part.weight.data != nullptr) head.layers.push_back({.weights = PackedWeights::Pack({part}, precision)});
  return head;
}

std::string AttentionNames(const Stack& stack) {
  std::string names;
  std::set<std::string> seen;
  for (const Stack::Attend& attend : stack.attentions()) {
    if (seen.insert(attend.type).second) names += (names.empty() ? "" : "+") + attend.type;
  }
  return names;
}

// Those that may be asked for their weights; layers are counted from the first.
std::vector<AttentionInfo> AttentionsOf(const Stack& stack) {
  std::vector<AttentionInfo> attentions;
  int first = -1;
  for (const Stack::Attend& attend : stack.attentions()) {
    if (!stack.gives_weights(attend)) continue;
    if (first < 0) first = attend.layer;
    attentions.push_back({.type = attend.type,
                          .layer = attend.layer - first,
                          .cross = attend.weighs_source(),
                          .weighing_heads = attend.attention().weighing_heads(),
                          .front = stack.sets()[attend.set].front});
  }
  return attentions;
}

int64_t Shorter(int64_t a, int64_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// The longest input with which a set has at most so many rows: those of a group, if they attend in groups.
int64_t LongestInput(const RowSet& set, int64_t group, int64_t most) {
  constexpr int64_t kUnlimited = int64_t{1} << 40;
  if (group > 0) return group <= most ? 0 : -1;
  const auto fits = [&](int64_t n) {
    return set.count.exact(set.input == WorkInput::kSource ? ShareSize{.source = n} : ShareSize{.rows = n}) <=
           most;
  };
  if (fits(kUnlimited)) return 0;
  int64_t low = 0, high = kUnlimited;  // the longest is at least low, and below high
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low > 0 ? low : -1;
}

// An image of the only size that the model takes must not be longer than its attentions take.
absl::Status CheckImage(const ModelInfo& info) {
  const ImageInput& image = info.image;
  if (!image.fixed) return absl::OkStatus();
  const int64_t patches = image.height / image.patch_size * (image.width / image.patch_size);
  if (info.max_tokens == 0 || patches <= info.max_tokens) return absl::OkStatus();
  return Invalid("config.json: an image of ", image.height, " by ", image.width, " has ", patches,
                 " patches, and an attention takes ", info.max_tokens);
}

// The longest sequence of an input that all attentions that read it take, beside `longest`. An error if there
// is none.
absl::StatusOr<int64_t> Longest(const Stack& stack, bool source, int64_t longest) {
  for (const Stack::Attend& attend : stack.attentions()) {
    const RowSet& read = stack.sets()[attend.cross() ? attend.source : attend.set];
    const int64_t most = attend.attention().max_tokens();
    if (most == 0 || (read.input == WorkInput::kSource) != source) continue;
    const int64_t input = LongestInput(read, stack.group(attend), most);
    if (input < 0)
      return Invalid("config.json: layer ", attend.layer, ": attention '", attend.type, "' takes ", most,
                     " rows, fewer than the model gives it");
    longest = Shorter(longest, input);
  }
  return longest;
}

// How many global tokens a request may name: as many as every layer that reads them takes.
int64_t MostGlobalTokens(const Stack& stack) {
  int64_t most = 0;
  for (const Stack::Attend& attend : stack.attentions()) {
    const RowLabels& labels = attend.attention().labels();
    if (stack.reads_labels(attend) && labels.kind == RowLabel::kGlobal) most = Shorter(most, labels.most);
  }
  return most;
}

// Of the attentions that sequences remember; none: nothing decodes.
DecodeClass DecodeOf(const Stack& stack) {
  if (!stack.sets()[stack.answered()].remembered) return DecodeClass::kNone;
  DecodeClass decode = DecodeClass::kExact;
  for (const Stack::Attend& attend : stack.attentions()) {
    if (stack.remembers(attend)) decode = std::max(decode, attend.attention().decode());
  }
  return decode;
}

// Whether any attention is not of groups alone.
bool RowsMeet(const Stack& stack) {
  return std::ranges::any_of(stack.attentions(),
                             [&](const Stack::Attend& attend) { return stack.group(attend) == 0; });
}

// Positions that are an image's make tokens its pixels. Where a token stands before them, it and the ids
// after it are none; before levels from 0 on nothing can stand that is not one of them.
DrawnImage DrawnBy(const ModelConfig& config, const LoadedStack& loaded) {
  if (config.grid.size() != 2 || config.architecture != Architecture::kDecoder ||
      config.head != Head::kLanguageModel) {
    return {};
  }
  DrawnImage image{.height = config.grid[0],
                   .width = config.grid[1],
                   .channels = loaded.channels,
                   .levels = static_cast<int32_t>(config.vocab_size),
                   .start = loaded.start_row ? 0 : -1};
  if (loaded.start_row || config.bos_token_id < 0) return image;
  if (config.bos_token_id == 0) return {};
  image.levels = image.start = config.bos_token_id;
  return image;
}

absl::StatusOr<ModelInfo> Describe(const ModelConfig& config, const LoadedStack& loaded,
                                   const OutputHead& head) {
  const Stack& stack = loaded.stack;
  ModelInfo info;
  info.architecture = config.architecture;
  info.head = config.head;
  info.input = loaded.input;
  info.image = loaded.image;
  info.global_input = loaded.global_input;
  info.id_limits = loaded.id_limits;
  info.schema = loaded.schema;
  info.rows_meet = info.input.kind == InputRow::Kind::kTableRow && RowsMeet(stack);
  info.attention = AttentionNames(stack);
  info.width = config.width;
  info.layers = loaded.layers;
  info.vocab_size = config.vocab_size;
  if (std::ranges::any_of(stack.sets(), &RowSet::typed)) info.type_vocab_size = config.type_vocab_size;
  info.output_width = head.width(stack.width());
  info.pooled = head.pooling != Pooling::kNone || stack.sets()[stack.answered()].count.always == 1;
  info.answers_tokens = stack.sets()[stack.answered()].input == WorkInput::kTokens;
  info.drawn = DrawnBy(config, loaded);
  info.start_row = loaded.start_row;
  const int64_t positions = config.architecture == Architecture::kEncoderDecoder
                                ? config.decoder_max_positions
                                : config.max_positions;
  const int64_t longest = Shorter(Shorter(loaded.max_tokens, positions), config.max_seq_length);
  ASSIGN_OR_RETURN(info.max_tokens, Longest(stack, /*source=*/false, longest));
  RETURN_IF_ERROR(CheckImage(info));
  if (config.architecture == Architecture::kEncoderDecoder || loaded.global_input.read) {
    ASSIGN_OR_RETURN(info.max_source_tokens, Longest(stack, /*source=*/true, config.max_positions));
  }
  info.decode = DecodeOf(stack);
  info.attentions = AttentionsOf(stack);
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
  info.weight_bytes = stack.weight_bytes() + head.bytes();
  info.embedding_bytes = loaded.embedding_bytes;
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
                                                            const LoadOptions& options,
                                                            const TensorView* view) {
  ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfig(json));
  if (config.byte_tokens && config.vocab_size < 256) {
    return Invalid("config.json: vocab_size ", config.vocab_size,
                   " is below 256, which tokenizer \"bytes\" needs");
  }
  Precision precision = Supported(options.precision);
  const WeightScope scope(weights, view);
  ASSIGN_OR_RETURN(LoadedStack loaded, config.recipe->Load(config, scope, precision));
  loaded.stack.LeaveOutUnread();
  ASSIGN_OR_RETURN(OutputHead head, LoadHead(config, scope, loaded, precision));
  RETURN_IF_ERROR(scope.AllUsed());
  ASSIGN_OR_RETURN(ModelInfo info, Describe(config, loaded, head));
  info.parameters = weights.parameters();
  info.precision = precision;
  ASSIGN_OR_RETURN(info.files, weights.Digests());
  ASSIGN_OR_RETURN(info.origin.model, Fingerprint(json, info.files));
  info.origin.precision = StatePrecision(precision);
  return std::make_unique<Transformer>(std::move(info), std::move(loaded.stack), std::move(head));
}

}  // namespace heed
