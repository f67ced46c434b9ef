#include "server/api/generate_inputs.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "engine/base/status.h"
#include "server/api/answer_bytes.h"
#include "server/api/models.h"
#include "server/api/options.h"
#include "server/error.h"
#include "server/jobs/beam.h"

namespace heed {
namespace {

FinishedBy HowFinished(Finished::Reason reason) {
  return reason == Finished::Reason::kMaxTokens ? FinishedBy::kLength : FinishedBy::kStop;
}

// Room for what is to follow a prompt that may be cut; a source needs none.
int64_t LongestPrompt(const v1::GenerateRequest& request, const ModelInfo& info,
                      const config::v1::LimitsConfig& limits) {
  const int64_t longest = MaxInputTokens(info, limits);
  if (!request.text().truncate() || info.architecture == Architecture::kEncoderDecoder) return longest;
  const int64_t wanted = std::max<int64_t>(1, request.stopping().max_tokens());
  return std::max<int64_t>(1, longest - wanted);
}

}  // namespace

absl::StatusOr<GeneratePlan> PlanOf(const v1::GenerateRequest& request, const ApiContext& api,
                                    const Rights* rights, CallRecord* record) {
  GeneratePlan plan;
  ASSIGN_OR_RETURN(plan.model, FindFor("Generate", request.target(), *api.registry, rights));
  record->Asks(plan.model->spec.name);
  RETURN_IF_ERROR(CheckCount(request.inputs_size(), api.limits().generate_inputs()));
  ASSIGN_OR_RETURN(plan.options, ToOptions(request, *plan.model, api.limits()));
  ASSIGN_OR_RETURN(plan.beam, ToBeam(request, plan.model->generation()));
  ASSIGN_OR_RETURN(plan.rules, ToRules(request, *plan.model));
  return plan;
}

GenerateInputs::GenerateInputs(const ApiContext& api, std::shared_ptr<const v1::GenerateRequest> request,
                               const GeneratePlan& plan, std::function<void()> ready,
                               std::stop_token client_gone)
    : InputJobs({.edge = api.edge,
                 .model = plan.model,
                 .memory = api.answer_memory,
                 .inputs = request->inputs_size(),
                 .urgency = {.priority = request->target().priority(), .deadline = plan.deadline},
                 .request_id = plan.request_id,
                 .trace = plan.trace}),
      request_(std::move(request)),
      plan_(plan),
      longest_(MaxTokens(model().info(), api.limits())),
      metrics_(api.metrics->Of(model())),
      reader_(&model(), api, request_->text(), LongestPrompt(*request_, model().info(), api.limits())),
      events_(std::make_shared<StreamBuffer>(std::move(ready))),
      when_gone_(std::move(client_gone),
                 [this] { Stop(Error(ErrorReason::kClientCancelled, "the client has gone")); }) {}

GenerateInputs::~GenerateInputs() {
  while (Next()) {
  }
}

std::optional<StreamEvent> GenerateInputs::Next() {
  std::optional<StreamEvent> event = events_->Next();
  if (event) CountEnd(*event);
  return event;
}

void GenerateInputs::CountEnd(const StreamEvent& event) const {
  const Duration since_arrival = edge().clock().Now() - plan_.arrival;
  if (const auto* finished = std::get_if<Finished>(&event.what)) {
    Usage usage = finished->usage;
    if (event.sample > 0) usage.input_tokens = 0;  // the samples read their prompt together
    metrics_->Spent(usage);
    metrics_->Succeeded(HowFinished(finished->reason), since_arrival);
  } else if (const auto* error = std::get_if<absl::Status>(&event.what)) {
    metrics_->Failed(*error, since_arrival);
  }
}

absl::StatusOr<std::shared_ptr<Job>> GenerateInputs::Make(int i) {
  const std::string where = Cat("inputs[", i, "]");
  ASSIGN_OR_RETURN(ReadInput read, reader_.Read(request_->inputs(i), where));
  auto job = NewJob(i, std::move(read));
  return job.ok() ? std::move(job) : AtField(job.status(), where);
}

absl::StatusOr<std::shared_ptr<Job>> GenerateInputs::NewJob(int i, ReadInput read) {
  GenerateInput input{.input = Prompt(std::move(read)),
                      .tokenizer = model().tokenizer(),
                      .index = i,
                      .events = events_,
                      .rules = plan_.rules};
  RETURN_IF_ERROR(BeginImage(model(), &input.input));
  GenerateOptions options = plan_.options;
  BeamOptions beam = plan_.beam;
  if (input.input.drawn) options.sampling.choices = beam.choices = model().info().drawn.levels;
  const int64_t asked = options.stopping.max_tokens, prompt = std::ssize(input.input.ids);
  const GenerationDefaults& defaults = model().generation();
  ASSIGN_OR_RETURN(options.stopping.max_tokens,
                   input.input.drawn ? MaxNewPixels(asked, input.input, longest_)
                                     : MaxNewTokens(asked, prompt, longest_, defaults.MostTokens(prompt)));
  const auto least =
      static_cast<int32_t>(std::min<int64_t>(defaults.LeastTokens(prompt), options.stopping.max_tokens));
  if (options.sampling.min_tokens == 0) options.sampling.min_tokens = least;
  beam.min_tokens = least;
  RETURN_IF_ERROR(ReserveFor(options.stopping.max_tokens));
  auto done = [self = shared_from_this(), this, i](const absl::Status&) { Ended(i); };
  if (beam.width > 0) return NewBeamJob(std::move(input), options.stopping, beam, std::move(done));
  return NewGenerateJob(std::move(input), options, std::move(done));
}

JobInput GenerateInputs::Prompt(ReadInput read) const {
  JobInput input{.model = &model().model(),
                 .ids = std::move(read.ids),
                 .urgency = urgency(),
                 .labels = std::move(read.labels),
                 .types = std::move(read.types)};
  const ModelInfo& info = model().info();
  if (info.architecture == Architecture::kEncoderDecoder)
    input.source = std::exchange(input.ids, {info.decoder_start_token_id});
  return input;
}

// Beams are told at the end, all tokens at a time. Samples stream: beside those of a step, what the buffer
// holds of all inputs is bounded.
absl::Status GenerateInputs::ReserveFor(int64_t max_tokens) {
  const Tokenizer* tokenizer = model().tokenizer();
  v1::GenerateDetails details = request_->details();
  if (Draws(model())) details.set_tokens(true);
  const int64_t token = StreamedTokenBytes(details, tokenizer ? tokenizer->max_token_bytes() : 0);
  const int64_t samples = plan_.samples();
  if (plan_.beam.width > 0)
    return Reserve(samples * StreamedSampleBytes() + plan_.beam.width * max_tokens * token);
  const int64_t streamed = std::min(streamed_ + samples * max_tokens, StreamLimits{}.tokens);
  const int64_t before = std::exchange(streamed_, streamed);
  return Reserve(samples * (StreamedSampleBytes() + token) + (streamed - before) * token);
}

void GenerateInputs::Refused(int i, const absl::Status& status) {
  metrics_->Refused(status);
  for (int sample = 0; sample < plan_.samples(); ++sample)
    events_->Add({.input = i, .sample = sample, .what = status});
}

}  // namespace heed
