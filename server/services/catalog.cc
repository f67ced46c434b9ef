#include "server/services/catalog.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "server/services/inputs.h"
#include "server/services/options.h"
#include "server/services/unary_call.h"
#include "server/services/wire.h"

namespace heed {
namespace {

constexpr Method kList = {"heed.v1.Models", "List"};
constexpr Method kDescribe = {"heed.v1.Models", "Describe"};
constexpr Duration kLoading = std::chrono::seconds(1);

std::string_view Name(Architecture architecture) {
  switch (architecture) {
    case Architecture::kEncoder:
      return "encoder";
    case Architecture::kDecoder:
      return "decoder";
    case Architecture::kEncoderDecoder:
      return "encoder-decoder";
  }
  return "";
}

std::string_view Name(Head head) {
  switch (head) {
    case Head::kNone:
      return "none";
    case Head::kLanguageModel:
      return "lm";
    case Head::kClassification:
      return "classification";
    case Head::kTokenClassification:
      return "token_classification";
    case Head::kEmbedding:
      return "embedding";
  }
  return "";
}

v1::ModelState ToMessage(ModelState state) {
  switch (state) {
    case ModelState::kLoading:
      return v1::LOADING;
    case ModelState::kReady:
      return v1::READY;
    case ModelState::kFailed:
      return v1::FAILED;
  }
  return v1::MODEL_STATE_UNSPECIFIED;
}

// Why the registry has no such model, with a hint if it is only loading.
absl::Status NotFound(const absl::Status& status, std::string_view field) {
  const absl::Status named = AtField(status, field);
  return absl::IsUnavailable(status) ? RetryAfter(named, kLoading) : named;
}

// Of an encoder-decoder, with a source as long as its target.
void AddCosts(const Model& model, int64_t longest, v1::ModelDescription* out) {
  const bool sourced = model.info().architecture == Architecture::kEncoderDecoder;
  for (int64_t tokens :
       {int64_t{1}, int64_t{128}, int64_t{512}, int64_t{2048}, int64_t{8192}, int64_t{32768}, longest}) {
    if (tokens > longest ||
        (tokens == longest && out->costs_size() > 0 && out->costs().rbegin()->tokens() == longest))
      continue;
    auto* cost = out->add_costs();
    cost->set_tokens(tokens);
    cost->set_state_bytes(model.StateBytes(tokens, sourced ? tokens : 0));
    cost->set_multiply_adds(model.Cost(tokens, sourced ? tokens : 0));
  }
}

}  // namespace

std::vector<std::string> RpcsOf(const ModelInfo& info) {
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

absl::StatusOr<const ServedModel*> FindFor(std::string_view rpc, const v1::Target& target,
                                           const Registry& registry) {
  auto model = registry.Find(target.model(), target.version());
  if (!model.ok()) return NotFound(model.status(), "target.model");
  RETURN_IF_ERROR(CheckPriority(target));
  const auto rpcs = RpcsOf((*model)->info());
  if (std::find(rpcs.begin(), rpcs.end(), rpc) != rpcs.end()) return *model;
  const std::string answered = rpcs.empty() ? "none of heed.v1.Inference" : absl::StrJoin(rpcs, ", ");
  return AtField(Invalid("'", (*model)->spec.name, "' does not answer ", rpc, ", it answers ", answered),
                 "target.model");
}

v1::ModelDescription Describe(const ServedModel& model, const v1::LimitsConfig& limits) {
  const ModelInfo& info = model.info();
  v1::ModelDescription out;
  out.set_model(model.spec.name);
  out.set_version(model.spec.version);
  out.set_architecture(std::string(Name(info.architecture)));
  out.set_attention(info.attention);
  out.set_head(std::string(Name(info.head)));
  for (const std::string& kind : KindsOf(model)) out.add_inputs(kind);
  for (const std::string& rpc : RpcsOf(info)) out.add_rpcs(rpc);
  out.mutable_labels()->Add(info.labels.begin(), info.labels.end());
  out.set_max_tokens(info.max_tokens);
  out.set_max_source_tokens(info.max_source_tokens);
  if (info.decoder_start_token_id >= 0) out.set_decoder_start_token_id(info.decoder_start_token_id);
  out.set_vocab_size(info.vocab_size);
  out.set_parameters(info.parameters);
  out.set_weight_bytes(info.weight_bytes + info.embedding_bytes);
  out.set_precision(std::string(Name(info.precision)));
  out.set_decode_class(std::string(Name(info.decode)));
  out.set_width(info.width);
  out.set_layers(info.layers);
  AddCosts(model.model(), std::min(MaxTokens(info, limits), MaxInputTokens(info, limits)), &out);
  out.set_description(model.loaded.description);
  return out;
}

grpc::ServerUnaryReactor* ModelsService::List(grpc::CallbackServerContext* context,
                                              const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return UnaryCall<v1::ListRequest, v1::ListResponse>::Start(
      edge_, kList, context, request, response, [this](auto call) {
        v1::ListResponse answer;
        for (const Registry::Entry& entry : registry_->List()) {
          auto* out = answer.add_models();
          out->set_model(entry.spec.name);
          out->set_version(entry.spec.version);
          out->set_state(ToMessage(entry.state));
          out->set_error(std::string(entry.error.message()));
        }
        call->Answer(answer);
      });
}

grpc::ServerUnaryReactor* ModelsService::Describe(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return UnaryCall<v1::DescribeRequest, v1::ModelDescription>::Start(
      edge_, kDescribe, context, request, response, [this](auto call) {
        auto model = registry_->Find(call->request().model(), call->request().version());
        if (!model.ok()) return call->Fail(NotFound(model.status(), "model"));
        call->Answer(heed::Describe(**model, edge_->limits()));
      });
}

}  // namespace heed
