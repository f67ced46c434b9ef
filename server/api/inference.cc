#include "server/api/inference.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "server/api/answers.h"
#include "server/api/generate_call.h"
#include "server/api/inputs.h"
#include "server/api/models.h"
#include "server/api/options.h"
#include "server/error.h"
#include "server/jobs/input_jobs.h"
#include "server/transport/unary_call.h"

namespace heed {
namespace {

// The inputs of one unary call, and its answer when the last of them has its own.
template <typename Request, typename Response>
class Answering final : public InputJobs {
 public:
  using Call = UnaryCall<Request, Response>;
  using Value = std::decay_t<decltype(std::declval<Response>().results(0).value())>;

  // Takes what a job gives. `convert` makes the answer of it, on one of the edge's threads.
  template <typename Result, typename Convert>
  typename AnsweringJob<Result>::Done Into(int i, Convert convert) {
    return [self = Self(), i, convert](absl::StatusOr<std::shared_ptr<AnsweringJob<Result>>> job) {
      self->edge_->answers().Run([self, i, convert, job = std::move(job)] {
        if (job.ok()) {
          const Result result = (*job)->Answer();
          self->metrics_->Spent(result.usage);
          self->Put(i, convert(result));
        } else {
          self->Put(i, job.status());
        }
        self->Ended(i);
      });
    };
  }
  template <typename Result>
  typename AnsweringJob<Result>::Done Into(int i) {
    return Into<Result>(i, [](const Result& result) { return ToMessage(result); });
  }

  using MakeJob = std::function<absl::StatusOr<std::shared_ptr<Job>>(Answering& answering, int i)>;

  static void Begin(const ApiContext& api, std::shared_ptr<Call> call, const ServedModel* model,
                    MakeJob make) {
    const int count = call->request().inputs_size();
    if (absl::Status status = CheckCount(count, api.limits().inputs()); !status.ok())
      return call->Fail(status);
    auto answering = std::make_shared<Answering>(api, call, model, count, std::move(make));
    call->WhenCancelled([weak = std::weak_ptr<InputJobs>(answering)] {
      if (auto jobs = weak.lock()) jobs->Cancel();
    });
    answering->Start();
  }

  Answering(const ApiContext& api, std::shared_ptr<Call> call, const ServedModel* model, int count,
            MakeJob make)
      : InputJobs(api.edge, model, count),
        metrics_(api.metrics->ForModel(model->spec, model->info())),
        call_(std::move(call)),
        make_(std::move(make)),
        results_(count, absl::UnknownError("")) {}

 private:
  std::shared_ptr<Answering> Self() { return std::static_pointer_cast<Answering>(shared_from_this()); }

  absl::StatusOr<std::shared_ptr<Job>> Make(int i) override { return make_(*this, i); }
  void Refused(int i, const absl::Status& status) override { Put(i, status); }

  void Put(int i, absl::StatusOr<Value> result) {
    const Duration since_arrival = edge_->clock().Now() - call_->arrival();
    if (result.ok()) {
      metrics_->Succeeded("complete", since_arrival);
    } else {
      metrics_->Failed(result.status(), since_arrival);
    }
    results_[i] = std::move(result);
  }

  void Complete() override {
    Response response;
    response.set_model(model_->spec.name);
    response.set_version(model_->spec.version);
    bool any = false;
    for (auto& result : results_) {
      auto* out = response.add_results();
      any |= result.ok();
      if (result.ok()) {
        *out->mutable_value() = *std::move(result);
      } else {
        *out->mutable_error() = ToError(result.status());
      }
    }
    if (any) return call_->Answer(response);
    absl::Status told = results_.front().status();
    for (const auto& result : results_) {
      if (MoreActionable(result.status(), told)) told = result.status();
    }
    call_->Fail(told);
  }

  ModelMetrics* const metrics_;
  const std::shared_ptr<Call> call_;
  const MakeJob make_;
  std::vector<absl::StatusOr<Value>> results_;  // [i]: written once, by whoever ends the i-th
};

// What is the same for all inputs of a request.
struct Reading {
  const ServedModel* model;
  InputReader reader;
  InputReader continuations;  // of Score
  Urgency urgency;

  template <typename Call>
  Reading(const ApiContext& api, const ServedModel* served, const Call& call)
      : model(served),
        reader(model, api.metrics->ForModel(model->spec, model->info()), &api.edge->clock(), api.limits(),
               call.request().text(), MaxInputTokens(model->info(), api.limits())),
        continuations(model, api.metrics->ForModel(model->spec, model->info()), &api.edge->clock(),
                      api.limits(), call.request().text(), MaxTokens(model->info(), api.limits())),
        urgency{.priority = call.request().target().priority(), .deadline = call.deadline()} {}

  JobInput Input(std::vector<int32_t> ids) const {
    return {.model = &model->model(), .ids = std::move(ids), .urgency = urgency};
  }
};

// What a factory of jobs refuses is the input's fault.
absl::StatusOr<std::shared_ptr<Job>> AtInput(absl::StatusOr<std::shared_ptr<Job>> job, int i) {
  return job.ok() ? std::move(job) : AtField(job.status(), Cat("inputs[", i, "]"));
}

absl::Status ClassifyInputs(const ApiContext& api,
                            std::shared_ptr<UnaryCall<v1::ClassifyRequest, v1::ClassifyResponse>> call) {
  ASSIGN_OR_RETURN(const ServedModel* model, FindFor("Classify", call->request().target(), *api.registry));
  ASSIGN_OR_RETURN(ClassifyOptions options, ToOptions(call->request().options()));
  auto reading = std::make_shared<Reading>(api, model, *call);
  using Inputs = Answering<v1::ClassifyRequest, v1::ClassifyResponse>;
  Inputs::Begin(api, call, model, [=](Inputs& inputs, int i) -> absl::StatusOr<std::shared_ptr<Job>> {
    ASSIGN_OR_RETURN(TokenInput input,
                     reading->reader.Read(call->request().inputs(i), Cat("inputs[", i, "]")));
    JobInput job = reading->Input(std::move(input.ids));
    if (reading->model->info().head == Head::kTokenClassification) {
      return AtInput(NewClassifyTokensJob(std::move(job), std::move(input.offsets), options,
                                          inputs.Into<ClassifiedTokens>(i)),
                     i);
    }
    return AtInput(NewClassifyJob(std::move(job), options, inputs.Into<Classified>(i)), i);
  });
  return absl::OkStatus();
}

absl::Status EmbedInputs(const ApiContext& api,
                         std::shared_ptr<UnaryCall<v1::EmbedRequest, v1::EmbedResponse>> call) {
  ASSIGN_OR_RETURN(const ServedModel* model, FindFor("Embed", call->request().target(), *api.registry));
  ASSIGN_OR_RETURN(EmbedOptions options, ToOptions(call->request().options()));
  auto reading = std::make_shared<Reading>(api, model, *call);
  using Inputs = Answering<v1::EmbedRequest, v1::EmbedResponse>;
  Inputs::Begin(api, call, model, [=](Inputs& inputs, int i) -> absl::StatusOr<std::shared_ptr<Job>> {
    ASSIGN_OR_RETURN(TokenInput input,
                     reading->reader.Read(call->request().inputs(i), Cat("inputs[", i, "]")));
    return AtInput(NewEmbedJob(reading->Input(std::move(input.ids)), options, inputs.Into<Embedded>(i)), i);
  });
  return absl::OkStatus();
}

absl::Status FillInputs(const ApiContext& api,
                        std::shared_ptr<UnaryCall<v1::FillRequest, v1::FillResponse>> call) {
  ASSIGN_OR_RETURN(const ServedModel* model, FindFor("Fill", call->request().target(), *api.registry));
  ASSIGN_OR_RETURN(FillOptions options, ToOptions(call->request().options()));
  auto reading = std::make_shared<Reading>(api, model, *call);
  using Inputs = Answering<v1::FillRequest, v1::FillResponse>;
  Inputs::Begin(api, call, model, [=](Inputs& inputs, int i) -> absl::StatusOr<std::shared_ptr<Job>> {
    ASSIGN_OR_RETURN(TokenInput input,
                     reading->reader.Read(call->request().inputs(i), Cat("inputs[", i, "]")));
    auto done = inputs.Into<Filled>(
        i, [model](const Filled& filled) { return ToMessage(filled, model->tokenizer()); });
    return AtInput(NewFillJob(reading->Input(std::move(input.ids)), options, std::move(done)), i);
  });
  return absl::OkStatus();
}

// Context and continuation as one sequence, and where the continuation begins. An encoder-decoder's context
// is its source, and the continuation follows its start token.
absl::StatusOr<std::pair<JobInput, int64_t>> ReadScored(const Reading& reading, const v1::ScoreItem& item,
                                                        const std::string& where) {
  JobInput input = reading.Input({});
  const ModelInfo& info = reading.model->info();
  const bool sourced = info.architecture == Architecture::kEncoderDecoder;
  if (item.has_context() || sourced) {
    ASSIGN_OR_RETURN(TokenInput context, reading.reader.Read(item.context(), where + ".context"));
    input.ids = std::move(context.ids);
  }
  if (sourced) input.source = std::exchange(input.ids, {info.decoder_start_token_id});
  std::vector<int32_t>& ids = input.ids;
  const int64_t begin = std::ssize(ids);
  ASSIGN_OR_RETURN(TokenInput continuation,
                   reading.continuations.ReadContinuation(item.continuation(), where + ".continuation"));
  ids.insert(ids.end(), continuation.ids.begin(), continuation.ids.end());
  RETURN_IF_ERROR(AtField(reading.continuations.CheckLength(std::ssize(ids)), where));
  return std::pair(std::move(input), begin);
}

absl::Status ScoreInputs(const ApiContext& api,
                         std::shared_ptr<UnaryCall<v1::ScoreRequest, v1::ScoreResponse>> call) {
  ASSIGN_OR_RETURN(const ServedModel* model, FindFor("Score", call->request().target(), *api.registry));
  ASSIGN_OR_RETURN(ScoreOptions options, ToOptions(call->request().options()));
  auto reading = std::make_shared<Reading>(api, model, *call);
  const bool logprobs = call->request().options().logprobs();
  using Inputs = Answering<v1::ScoreRequest, v1::ScoreResponse>;
  Inputs::Begin(api, call, model, [=](Inputs& inputs, int i) -> absl::StatusOr<std::shared_ptr<Job>> {
    ASSIGN_OR_RETURN(auto read, ReadScored(*reading, call->request().inputs(i), Cat("inputs[", i, "]")));
    auto done = inputs.Into<Scored>(
        i, [=](const Scored& scored) { return ToMessage(scored, model->tokenizer(), logprobs); });
    return AtInput(NewScoreJob(std::move(read.first), read.second, options, std::move(done)), i);
  });
  return absl::OkStatus();
}

template <typename Request, typename Response, typename Function>
grpc::ServerUnaryReactor* Start(const ApiContext& api, const Method& method,
                                grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                grpc::ByteBuffer* response, Function function) {
  return UnaryCall<Request, Response>::Start(api.edge, method, context, request, response, [=](auto call) {
    if (absl::Status status = function(api, call); !status.ok()) call->Fail(status);
  });
}

constexpr std::string_view kService = "heed.v1.Inference";

}  // namespace

grpc::ServerUnaryReactor* InferenceService::Classify(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return Start<v1::ClassifyRequest, v1::ClassifyResponse>(api_, {kService, "Classify"}, context, request,
                                                          response, ClassifyInputs);
}

grpc::ServerUnaryReactor* InferenceService::Embed(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Start<v1::EmbedRequest, v1::EmbedResponse>(api_, {kService, "Embed"}, context, request, response,
                                                    EmbedInputs);
}

grpc::ServerUnaryReactor* InferenceService::Score(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Start<v1::ScoreRequest, v1::ScoreResponse>(api_, {kService, "Score"}, context, request, response,
                                                    ScoreInputs);
}

grpc::ServerUnaryReactor* InferenceService::Fill(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  return Start<v1::FillRequest, v1::FillResponse>(api_, {kService, "Fill"}, context, request, response,
                                                  FillInputs);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Generate(grpc::CallbackServerContext* context,
                                                                       const grpc::ByteBuffer* request) {
  auto call = std::make_shared<GenerateCall>(api_, Method{kService, "Generate"}, context, request);
  call->Begin();
  return call.get();
}

}  // namespace heed
