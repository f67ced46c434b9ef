#include "server/api/models.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/api/answers.h"
#include "server/api/generation.h"
#include "server/api/inputs.h"
#include "server/api/options.h"
#include "server/api/table_inputs.h"
#include "server/error.h"
#include "server/methods.h"
#include "server/transport/unary_call.h"

namespace heed {
namespace {

constexpr Duration kLoading = std::chrono::seconds(1);

v1::Architecture ToMessage(Architecture architecture) {
  switch (architecture) {
    case Architecture::kEncoder:
      return v1::ARCHITECTURE_ENCODER;
    case Architecture::kDecoder:
      return v1::ARCHITECTURE_DECODER;
    case Architecture::kEncoderDecoder:
      return v1::ARCHITECTURE_ENCODER_DECODER;
  }
  return v1::ARCHITECTURE_UNSPECIFIED;
}

v1::ModelHead ToMessage(Head head) {
  switch (head) {
    case Head::kNone:
      return v1::HEAD_NONE;
    case Head::kLanguageModel:
      return v1::HEAD_LANGUAGE_MODEL;
    case Head::kClassification:
      return v1::HEAD_CLASSIFICATION;
    case Head::kTokenClassification:
      return v1::HEAD_TOKEN_CLASSIFICATION;
    case Head::kEmbedding:
      return v1::HEAD_EMBEDDING;
  }
  return v1::HEAD_UNSPECIFIED;
}

v1::Precision ToMessage(Precision precision) {
  switch (precision) {
    case Precision::kF32:
      return v1::PRECISION_F32;
    case Precision::kBf16:
      return v1::PRECISION_BF16;
    case Precision::kInt8:
      return v1::PRECISION_INT8;
  }
  return v1::PRECISION_UNSPECIFIED;
}

v1::DecodeClass ToMessage(DecodeClass decode) {
  switch (decode) {
    case DecodeClass::kExact:
      return v1::DECODE_CLASS_EXACT;
    case DecodeClass::kApproximate:
      return v1::DECODE_CLASS_APPROXIMATE;
    case DecodeClass::kNone:
      return v1::DECODE_CLASS_NONE;
  }
  return v1::DECODE_CLASS_UNSPECIFIED;
}

v1::ModelState ToMessage(ModelState state) {
  switch (state) {
    case ModelState::kLoading:
      return v1::MODEL_STATE_LOADING;
    case ModelState::kReady:
      return v1::MODEL_STATE_READY;
    case ModelState::kFailed:
      return v1::MODEL_STATE_FAILED;
  }
  return v1::MODEL_STATE_UNSPECIFIED;
}

// Why the registry has no such model, with a hint if it is only loading.
absl::Status NotFound(const absl::Status& status) {
  const absl::Status named = Within(status, "target");
  return absl::IsUnavailable(status) ? RetryAfter(named, kLoading) : named;
}

// As long a source as Describe takes for an input of so many tokens: of an encoder-decoder, as long as its
// target; a global input as it is where a request gives none, or of one token.
int64_t SourceOf(const ModelInfo& info, int64_t tokens) {
  const GlobalInput& global = info.global_input;
  if (global.read) return global.has_default() ? global.DefaultCount(tokens) : 1;
  return info.architecture == Architecture::kEncoderDecoder ? tokens : 0;
}

void AddCosts(const Model& model, int64_t longest, v1::ModelDescription* out) {
  for (int64_t tokens :
       {int64_t{1}, int64_t{128}, int64_t{512}, int64_t{2048}, int64_t{8192}, int64_t{32768}, longest}) {
    if (tokens > longest ||
        (tokens == longest && out->costs_size() > 0 && out->costs().rbegin()->tokens() == longest))
      continue;
    auto* cost = out->add_costs();
    cost->set_tokens(tokens);
    const int64_t source = SourceOf(model.info(), tokens);
    cost->set_state_bytes(model.StateBytes(tokens, source));
    cost->set_multiply_adds(model.Cost(tokens, source));
    const int64_t globals = std::min(tokens, model.info().max_global_tokens);
    if (globals == 0) continue;
    cost->set_global_state_bytes(model.StateBytes(tokens, source, globals));
    cost->set_global_multiply_adds(model.Cost(tokens, source, globals));
  }
}

bool Contains(const std::vector<std::string>& rpcs, std::string_view rpc) {
  return std::ranges::find(rpcs, rpc) != rpcs.end();
}

// Whether its two labels of tokens are where an answer begins and ends.
bool FindsSpans(const ModelInfo& info) {
  return info.head == Head::kTokenClassification && info.labels == std::vector<std::string>{"start", "end"};
}

// What a head answers with.
std::vector<std::string> RpcsOfHead(const ModelInfo& info) {
  // Requests name a table's columns. Answers are of a whole input, of each token, or of each row of a table.
  const bool tokens = info.input.kind == InputRow::Kind::kToken,
             rows = info.input.kind == InputRow::Kind::kTableRow;
  if (rows && info.schema.empty()) return {};
  if (!info.pooled && !rows && !(tokens && info.answers_tokens)) return {};
  // A row that is no token would have a label.
  if (info.start_row && info.head != Head::kLanguageModel) return {};
  switch (info.head) {
    case Head::kClassification:
    case Head::kTokenClassification:
      return {"Classify"};
    case Head::kEmbedding:
      return {"Embed"};
    case Head::kNone:
      return {};
    case Head::kLanguageModel:
      break;
  }
  if (info.architecture == Architecture::kEncoder) return {"Fill"};
  // Without a start token nothing can begin a target.
  if (info.architecture == Architecture::kEncoderDecoder && info.decoder_start_token_id < 0) return {};
  if (info.decode == DecodeClass::kNone) return {"Score"};
  return {"Score", "Generate"};
}

}  // namespace

std::vector<std::string> RpcsOf(const LoadedModel& loaded) {
  std::vector<std::string> rpcs = RpcsOfHead(loaded.model->info());
  const bool reads_text =
      loaded.tokenizer != nullptr && loaded.model->info().input.kind == InputRow::Kind::kToken;
  if (!reads_text) return rpcs;
  const bool pairs = loaded.tokenizer->Encode("a", "b", {}).ok();
  if (pairs && Contains(rpcs, "Classify") && loaded.model->info().head == Head::kClassification)
    rpcs.push_back("Rerank");
  if (pairs && Contains(rpcs, "Classify") && FindsSpans(loaded.model->info())) rpcs.push_back("Answer");
  rpcs.insert(rpcs.end(), {"Tokenize", "Detokenize"});
  return rpcs;
}

std::vector<Registry::Entry> ListFor(const Registry& registry, const Rights* rights) {
  std::vector<Registry::Entry> entries = registry.List();
  std::erase_if(entries, [&](const auto& entry) { return !CheckModel(rights, entry.spec.name).ok(); });
  return entries;
}

namespace {

// Of a model that a request names; or leaves out, where there is one only.
absl::Status CheckRights(std::string_view name, const Registry& registry, const Rights* rights) {
  if (rights == nullptr) return absl::OkStatus();
  if (!name.empty()) return AtField(CheckModel(rights, name), "model");
  const auto entries = registry.List();
  return entries.size() == 1 ? AtField(CheckModel(rights, entries[0].spec.name), "model") : absl::OkStatus();
}

}  // namespace

absl::StatusOr<const ServedModel*> FindFor(std::string_view rpc, const v1::Target& target,
                                           const Registry& registry, const Rights* rights) {
  RETURN_IF_ERROR(Within(CheckRights(target.model(), registry, rights), "target"));
  auto model = registry.Find(target.model(), target.version());
  if (!model.ok()) return NotFound(model.status());
  RETURN_IF_ERROR(CheckPriority(target));
  if (Contains(RpcsOfHead((*model)->info()), rpc)) return *model;  // quick: most calls
  const auto rpcs = RpcsOf((*model)->loaded);
  if (Contains(rpcs, rpc)) return *model;
  const std::string answered = rpcs.empty() ? "none of heed.v1.Inference" : absl::StrJoin(rpcs, ", ");
  const bool lacks_tokenizer = (rpc == "Tokenize" || rpc == "Detokenize") && (*model)->tokenizer() == nullptr;
  return AtField(Error(ErrorReason::kRpcUnsupported, "'", (*model)->spec.name, "' does not answer ", rpc,
                       lacks_tokenizer ? ", it has no tokenizer" : "", ", it answers ", answered),
                 "target.model");
}

namespace {

// The ids that mean something to the model.
v1::SpecialTokens SpecialTokensOf(const ModelInfo& info) {
  v1::SpecialTokens out;
  if (info.bos_token_id >= 0) out.set_bos_token_id(info.bos_token_id);
  out.mutable_eos_token_ids()->Add(info.eos_token_ids.begin(), info.eos_token_ids.end());
  if (info.pad_token_id >= 0) out.set_pad_token_id(info.pad_token_id);
  if (info.mask_token_id >= 0) out.set_mask_token_id(info.mask_token_id);
  if (info.decoder_start_token_id >= 0) out.set_decoder_start_token_id(info.decoder_start_token_id);
  return out;
}

// How much more a long sequence holds for each further token; an encoder-decoder's, whatever its source.
int64_t GrowthPerToken(const Model& model, int64_t longest, int64_t source) {
  const int64_t half = longest / 2;
  const int64_t grown = model.StateBytes(longest, source) - model.StateBytes(half, source);
  return grown / std::max<int64_t>(longest - half, 1);
}

void AddLimits(const ServedModel& model, const config::v1::LimitsConfig& limits, v1::ModelDescription* out) {
  const ModelInfo& info = model.info();
  const bool sourced = info.architecture == Architecture::kEncoderDecoder;
  const int64_t longest = MaxTokens(info, limits), source = MaxInputTokens(info, limits);
  out->set_max_tokens(info.max_tokens);
  out->set_max_source_tokens(info.max_source_tokens);
  out->set_state_bytes_per_token(GrowthPerToken(model.model(), longest, sourced ? source : 0));
  out->set_state_limit_bytes(model.spec.scheduling.state_bytes);
  out->set_attention_limit_bytes(limits.attention_bytes());
  AddCosts(model.model(), std::min(longest, source), out);
}

void AddWeights(const ServedModel& model, v1::ModelDescription* out) {
  out->set_precision(ToMessage(model.info().precision));
  out->set_weight_bytes(model.info().weight_bytes + model.info().embedding_bytes);
  out->set_load_seconds(ToSeconds(model.load_time));
  for (const FileDigest& file : model.info().files) {
    auto* listed = out->add_weights_files();
    listed->set_name(file.name);
    listed->set_bytes(file.bytes);
    listed->set_sha256(file.sha256);
  }
}

// What becomes of files.
void AddResizing(const ImageResizing& resizing, v1::ImageInput* image) {
  image->set_files(true);
  image->set_resized_height(static_cast<int32_t>(resizing.to.height));
  image->set_resized_width(static_cast<int32_t>(resizing.to.width));
  image->set_resized_shortest_edge(static_cast<int32_t>(resizing.shortest_edge));
  image->set_cropped_height(static_cast<int32_t>(resizing.crop.height));
  image->set_cropped_width(static_cast<int32_t>(resizing.crop.width));
}

// What its inputs are, if they are no text.
void AddNumbers(const ServedModel& model, v1::ModelDescription* out) {
  const ModelInfo& info = model.info();
  if (info.input.kind == InputRow::Kind::kPatch) {
    auto* image = out->mutable_image_input();
    image->set_channels(static_cast<int32_t>(info.image.channels));
    image->set_height(static_cast<int32_t>(info.image.height));
    image->set_width(static_cast<int32_t>(info.image.width));
    image->set_fixed(info.image.fixed);
    image->set_patch_size(static_cast<int32_t>(info.image.patch_size));
    if (model.preprocessing() != nullptr) AddResizing(model.preprocessing()->resizing(), image);
  } else if (info.input.kind == InputRow::Kind::kVector) {
    out->set_vector_size(static_cast<int32_t>(info.input.numbers));
  } else if (info.input.kind == InputRow::Kind::kTableRow) {
    *out->mutable_table_input() = ToMessage(info.schema);
    out->mutable_table_input()->set_rows_meet(info.rows_meet);
  }
}

// What it reads and answers.
void AddInterface(const ServedModel& model, v1::ModelDescription* out) {
  const ModelInfo& info = model.info();
  for (v1::InputKind kind : KindsOf(model)) out->add_inputs(kind);
  for (const std::string& rpc : RpcsOf(model.loaded)) out->add_rpcs(Cat("heed.v1.Inference.", rpc));
  out->set_max_global_tokens(info.max_global_tokens);
  out->set_token_types(info.type_vocab_size);
  AddNumbers(model, out);
  if (info.global_input.read) {
    v1::GlobalInputDescription& global = *out->mutable_global_input();
    global.set_tokens_per_global(info.global_input.tokens_per_global);
    global.set_required(!info.global_input.has_default());
  }
  out->mutable_labels()->Add(info.labels.begin(), info.labels.end());
  if (info.head == Head::kEmbedding) out->set_embedding_size(info.output_width);
  for (const auto& [name, prompt] : model.prompts().by_name) (*out->mutable_prompts())[name] = prompt;
  out->set_default_prompt_name(model.prompts().default_name);
  if (model.tokenizer() != nullptr) out->set_tokenizer(model.tokenizer()->kind());
  *out->mutable_special_tokens() = SpecialTokensOf(info);
  if (Contains(RpcsOfHead(info), "Generate")) AddGeneration(model, out);
}

// Each layer has an attention, and then, of an encoder-decoder, another that looks at the source.
void AddAttention(const ModelInfo& info, v1::ModelDescription* out) {
  for (const AttentionInfo& each : info.attentions) {
    if (each.cross) {
      v1::AttentionLayer& layer = *out->mutable_attention_layers()->rbegin();
      layer.set_cross_type(each.type);
      layer.set_cross_heads(each.weighing_heads);
    } else {
      v1::AttentionLayer& layer = *out->add_attention_layers();
      layer.set_type(each.type);
      layer.set_heads(each.weighing_heads);
    }
  }
}

void AddShape(const ModelInfo& info, v1::ModelDescription* out) {
  out->set_architecture(ToMessage(info.architecture));
  for (absl::string_view type : absl::StrSplit(info.attention, '+')) out->add_attention(std::string(type));
  AddAttention(info, out);
  out->set_head(ToMessage(info.head));
  out->set_decode_class(ToMessage(info.decode));
  out->set_width(info.width);
  out->set_layers(info.layers);
  out->set_parameters(info.parameters);
  out->set_vocab_size(info.vocab_size);
}

// The entry of a name and version that Find() knows: another answer of it than "no such model".
std::optional<Registry::Entry> EntryOf(const Registry& registry, std::string_view name) {
  for (Registry::Entry& entry : registry.List()) {
    if (name.empty() || entry.spec.name == name) return std::move(entry);
  }
  return std::nullopt;
}

absl::StatusOr<v1::ModelDescription> Describe(const v1::DescribeModelRequest& request, const ApiContext& api,
                                              const Rights* rights) {
  RETURN_IF_ERROR(CheckRights(request.model(), *api.registry, rights));
  const absl::Status found = api.registry->Find(request.model(), request.version()).status();
  if (!found.ok() && !absl::IsUnavailable(found) && !absl::IsFailedPrecondition(found)) return found;
  return Describe(*EntryOf(*api.registry, request.model()), api.limits());
}

}  // namespace

v1::ModelDescription Describe(const Registry::Entry& entry, const config::v1::LimitsConfig& limits) {
  v1::ModelDescription out;
  out.set_model(entry.spec.name);
  out.set_version(entry.spec.version);
  out.set_state(ToMessage(entry.state));
  if (!entry.error.ok()) *out.mutable_error() = ToError(entry.error);
  if (entry.model == nullptr) return out;
  out.set_description(entry.model->loaded.description);
  out.set_family(entry.model->loaded.family);
  AddShape(entry.model->info(), &out);
  AddInterface(*entry.model, &out);
  AddWeights(*entry.model, &out);
  AddLimits(*entry.model, limits, &out);
  return out;
}

v1::ModelSummary Summary(const Registry::Entry& entry) {
  v1::ModelSummary out;
  out.set_model(entry.spec.name);
  out.set_version(entry.spec.version);
  out.set_state(ToMessage(entry.state));
  if (!entry.error.ok()) *out.mutable_error() = ToError(entry.error);
  return out;
}

grpc::ServerUnaryReactor* ModelsService::ListModels(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return UnaryCall<v1::ListModelsRequest, v1::ListModelsResponse>::Start(
      api_.edge, kListModels, context, request, response, [this](auto call) {
        v1::ListModelsResponse answer;
        for (const Registry::Entry& entry : ListFor(*api_.registry, call->rights()))
          *answer.add_models() = Summary(entry);
        call->Answer(answer);
      });
}

grpc::ServerUnaryReactor* ModelsService::DescribeModel(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) {
  return UnaryCall<v1::DescribeModelRequest, v1::ModelDescription>::Start(
      api_.edge, kDescribeModel, context, request, response, [this](auto call) {
        const auto description = Describe(call->request(), api_, call->rights());
        description.ok() ? call->Answer(*description) : call->Fail(description.status());
      });
}

}  // namespace heed
