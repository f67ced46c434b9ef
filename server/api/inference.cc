#include "server/api/inference.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "server/api/answer_bytes.h"
#include "server/api/answer_questions.h"
#include "server/api/answering.h"
#include "server/api/generate_call.h"
#include "server/api/many_inputs.h"
#include "server/api/options.h"
#include "server/api/rerank.h"
#include "server/api/tokenize.h"
#include "server/methods.h"

namespace heed {
namespace {

using MadeJob = absl::StatusOr<std::shared_ptr<Job>>;

class ClassifyInputs final : public Answering<v1::ClassifyRequest, v1::ClassifyResponse> {
 public:
  ClassifyInputs(const ApiContext& api, std::shared_ptr<Call> call, const ServedModel* model,
                 std::optional<WeightsChoice> weights, const ClassifyOptions& options)
      : Answering(api, std::move(call), model, std::move(weights)), options_(options) {}

 private:
  MadeJob Make(int i) override {
    ASSIGN_OR_RETURN(ReadInput input, reader().Read(request().inputs(i), Where(i)));
    if (request().inputs(i).has_table()) return AtInput(OfRows(std::move(input), i), i);
    const bool of_tokens = info().head == Head::kTokenClassification;
    return AtInput(of_tokens ? OfTokens(std::move(input), i) : OfWhole(std::move(input), i), i);
  }

  MadeJob OfTokens(ReadInput read, int i) {
    Offsets offsets = std::move(read.offsets);
    JobInput input = ToJob(std::move(read));
    const int64_t tokens = std::ssize(input.ids);
    RETURN_IF_ERROR(ReserveAnswer(i, SpansBytes(options_, info(), tokens), tokens, &input));
    return NewClassifyTokensJob(std::move(input), std::move(offsets), options_, Into<ClassifiedTokens>(i));
  }

  MadeJob OfWhole(ReadInput read, int i) {
    JobInput input = ToJob(std::move(read));
    RETURN_IF_ERROR(ReserveAnswer(i, ClassificationBytes(options_, info()), input.length(), &input));
    return NewClassifyJob(std::move(input), options_, Into<Classified>(i));
  }

  MadeJob OfRows(ReadInput read, int i) {
    JobInput input = ToJob(std::move(read));
    const int64_t rows = input.length();
    RETURN_IF_ERROR(ReserveAnswer(i, ClassifiedRowsBytes(options_, info(), rows), rows, &input));
    return NewClassifyRowsJob(std::move(input), options_, Into<ClassifiedRows>(i));
  }

  const ClassifyOptions options_;
};

// What stands before the texts of a request whose prompt_name is fine.
std::string PromptOf(const v1::EmbedOptions& options, const ServedModel& model) {
  const auto& name = options.has_prompt_name() ? options.prompt_name() : model.prompts().default_name;
  const auto found = model.prompts().by_name.find(name);
  return name.empty() || found == model.prompts().by_name.end() ? "" : found->second;
}

absl::Status CheckPromptName(const v1::EmbedOptions& options, const ServedModel& model) {
  const auto& prompts = model.prompts().by_name;
  if (options.prompt_name().empty() || prompts.contains(options.prompt_name())) return absl::OkStatus();
  std::vector<std::string> names;
  for (const auto& [name, prompt] : prompts) names.push_back(name);
  if (names.size() > 8) names.resize(8);
  const std::string known =
      names.empty() ? "no prompts" : Cat(prompts.size(), ": ", absl::StrJoin(names, ", "));
  return AtField(Invalid("no prompt has this name; '", model.spec.name, "' has ", known),
                 "options.prompt_name");
}

class EmbedInputs final : public Answering<v1::EmbedRequest, v1::EmbedResponse> {
 public:
  EmbedInputs(const ApiContext& api, std::shared_ptr<Call> call, const ServedModel* model,
              std::optional<WeightsChoice> weights, const EmbedOptions& options)
      : Answering(api, call, model, std::move(weights)),
        options_(options),
        texts_(model, api, call->request().text(), MaxInputTokens(model->info(), api.limits())) {
    texts_.set_prompt(PromptOf(call->request().options(), *model));
  }

 private:
  MadeJob Make(int i) override {
    const v1::Input& asked = request().inputs(i);
    if (!request().options().prompt_name().empty() && !asked.has_text() &&
        asked.kind_case() != v1::Input::KIND_NOT_SET)
      return AtField(Invalid("options.prompt_name names a prompt, which only texts have"),
                     Cat(Where(i), ".", KindOf(asked)));
    ASSIGN_OR_RETURN(ReadInput read, texts_.Read(asked, Where(i)));
    JobInput input = ToJob(std::move(read));
    RETURN_IF_ERROR(ReserveAnswer(i, EmbeddingBytes(options_, info()), input.length(), &input));
    return AtInput(NewEmbedJob(std::move(input), options_, Into<Embedded>(i)), i);
  }

  const EmbedOptions options_;
  InputReader texts_;  // with the prompt
};

class FillInputs final : public Answering<v1::FillRequest, v1::FillResponse> {
 public:
  FillInputs(const ApiContext& api, std::shared_ptr<Call> call, const ServedModel* model,
             std::optional<WeightsChoice> weights, FillOptions options)
      : Answering(api, std::move(call), model, std::move(weights)), options_(std::move(options)) {}

 private:
  MadeJob Make(int i) override {
    ASSIGN_OR_RETURN(ReadInput read, reader().Read(request().inputs(i), Where(i)));
    JobInput input = ToJob(std::move(read));
    const int64_t positions = std::ssize(PositionsToFill(options_, info(), input.ids));
    RETURN_IF_ERROR(
        ReserveAnswer(i, FilledBytes(options_, positions, token_bytes()), std::ssize(input.ids), &input));
    auto done = Into<Filled>(
        i, [tokenizer = model().tokenizer()](const Filled& filled) { return ToMessage(filled, tokenizer); });
    return AtInput(NewFillJob(std::move(input), options_, std::move(done)), i);
  }

  const FillOptions options_;
};

class ScoreInputs final : public Answering<v1::ScoreRequest, v1::ScoreResponse> {
 public:
  ScoreInputs(const ApiContext& api, std::shared_ptr<Call> call, const ServedModel* model,
              std::optional<WeightsChoice> weights, const ScoreOptions& options)
      : Answering(api, call, model, std::move(weights)),
        options_(options),
        continuations_(model, api, call->request().text(), MaxTokens(model->info(), api.limits())) {}

 private:
  // Context and continuation as one sequence, and where the continuation begins.
  struct Continued {
    JobInput input;
    int64_t begin = 0;
  };

  MadeJob Make(int i) override {
    ASSIGN_OR_RETURN(Continued read, Read(request().inputs(i), Where(i)));
    const int64_t tokens = std::ssize(read.input.ids), scored = tokens - read.begin;
    RETURN_IF_ERROR(
        ReserveAnswer(i, ScoredBytes(request().options(), scored, token_bytes()), tokens - 1, &read.input));
    const bool logprobs = request().options().logprobs();
    auto done = Into<Scored>(i, [tokenizer = model().tokenizer(), logprobs](const Scored& scored) {
      return ToMessage(scored, tokenizer, logprobs);
    });
    return AtInput(NewScoreJob(std::move(read.input), read.begin, options_, std::move(done)), i);
  }

  // An encoder-decoder's context is its source, and the continuation follows its start token.
  absl::StatusOr<Continued> Read(const v1::ScoreItem& item, const std::string& where) const {
    Continued read{.input = ToJob({})};
    std::vector<int32_t>& ids = read.input.ids;
    const bool sourced = info().architecture == Architecture::kEncoderDecoder;
    if (item.has_context() || sourced) {
      ASSIGN_OR_RETURN(ReadInput context, reader().Read(item.context(), where + ".context"));
      ids = std::move(context.ids);
      read.input.labels = std::move(context.labels);
      read.input.types = std::move(context.types);
    }
    if (sourced) read.input.source = std::exchange(ids, {info().decoder_start_token_id});
    read.begin = std::ssize(ids);
    ASSIGN_OR_RETURN(ReadInput continuation,
                     continuations_.ReadContinuation(item.continuation(), where + ".continuation"));
    ids.insert(ids.end(), continuation.ids.begin(), continuation.ids.end());
    if (!read.input.types.empty()) read.input.types.resize(ids.size());
    RETURN_IF_ERROR(AtField(BeginImage(model(), &read.input), where));
    if (read.input.start_put) ++read.begin;
    const int64_t length = read.input.drawn ? read.input.pixels() : std::ssize(ids);
    RETURN_IF_ERROR(AtField(continuations_.CheckLength(length), where));
    return read;
  }

  const ScoreOptions options_;
  const InputReader continuations_;
};

absl::Status Classify(const ApiContext& api, std::shared_ptr<ClassifyInputs::Call> call) {
  ASSIGN_OR_RETURN(const ServedModel* model, ModelFor("Classify", api, *call));
  ASSIGN_OR_RETURN(ClassifyOptions options, ToOptions(call->request().options(), model->info()));
  ASSIGN_OR_RETURN(auto weights, ToChoice(call->request().details(), *model));
  std::make_shared<ClassifyInputs>(api, std::move(call), model, std::move(weights), options)->Begin();
  return absl::OkStatus();
}

absl::Status Embed(const ApiContext& api, std::shared_ptr<EmbedInputs::Call> call) {
  ASSIGN_OR_RETURN(const ServedModel* model, ModelFor("Embed", api, *call));
  ASSIGN_OR_RETURN(EmbedOptions options, ToOptions(call->request().options(), model->info()));
  RETURN_IF_ERROR(CheckPromptName(call->request().options(), *model));
  ASSIGN_OR_RETURN(auto weights, ToChoice(call->request().details(), *model));
  std::make_shared<EmbedInputs>(api, std::move(call), model, std::move(weights), options)->Begin();
  return absl::OkStatus();
}

absl::Status Score(const ApiContext& api, std::shared_ptr<ScoreInputs::Call> call) {
  ASSIGN_OR_RETURN(const ServedModel* model, ModelFor("Score", api, *call));
  ASSIGN_OR_RETURN(ScoreOptions options, ToOptions(call->request().options()));
  ASSIGN_OR_RETURN(auto weights, ToChoice(call->request().details(), *model));
  std::make_shared<ScoreInputs>(api, std::move(call), model, std::move(weights), options)->Begin();
  return absl::OkStatus();
}

absl::Status Fill(const ApiContext& api, std::shared_ptr<FillInputs::Call> call) {
  ASSIGN_OR_RETURN(const ServedModel* model, ModelFor("Fill", api, *call));
  ASSIGN_OR_RETURN(FillOptions options, ToOptions(call->request().options()));
  ASSIGN_OR_RETURN(auto weights, ToChoice(call->request().details(), *model));
  std::make_shared<FillInputs>(api, std::move(call), model, std::move(weights), std::move(options))->Begin();
  return absl::OkStatus();
}

// Calls `function` with the call, and ends it with the error if there is one.
template <typename Call>
typename Call::Handler Handling(const ApiContext& api,
                                absl::Status (*function)(const ApiContext&, std::shared_ptr<Call>)) {
  return [api, function](std::shared_ptr<Call> call) {
    if (absl::Status status = function(api, call); !status.ok()) call->Fail(status);
  };
}

}  // namespace

grpc::ServerUnaryReactor* InferenceService::Classify(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return ClassifyInputs::Call::Start(api_.edge, kClassify, context, request, response,
                                     Handling(api_, heed::Classify));
}

grpc::ServerUnaryReactor* InferenceService::Embed(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return EmbedInputs::Call::Start(api_.edge, kEmbed, context, request, response, Handling(api_, heed::Embed));
}

grpc::ServerUnaryReactor* InferenceService::Score(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return ScoreInputs::Call::Start(api_.edge, kScore, context, request, response, Handling(api_, heed::Score));
}

grpc::ServerUnaryReactor* InferenceService::Fill(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  return FillInputs::Call::Start(api_.edge, kFill, context, request, response, Handling(api_, heed::Fill));
}

grpc::ServerUnaryReactor* InferenceService::Rerank(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  return RerankCall::Start(api_.edge, kRerank, context, request, response, Handling(api_, heed::Rerank));
}

grpc::ServerUnaryReactor* InferenceService::Answer(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  return AnswerCall::Start(api_.edge, kAnswer, context, request, response, Handling(api_, AnswerQuestions));
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return TokenizeCall::Start(api_.edge, kTokenize, context, request, response,
                             Handling(api_, heed::Tokenize));
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) {
  return DetokenizeCall::Start(api_.edge, kDetokenize, context, request, response,
                               Handling(api_, heed::Detokenize));
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Generate(grpc::CallbackServerContext* context,
                                                                       const grpc::ByteBuffer* request) {
  auto call = std::make_shared<GenerateCall>(api_, kGenerate, context, request);
  call->Begin();
  return call.get();
}

}  // namespace heed
