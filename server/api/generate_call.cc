#include "server/api/generate_call.h"

#include <utility>

#include "engine/base/status.h"
#include "server/api/answers.h"
#include "server/api/inputs.h"
#include "server/api/models.h"
#include "server/api/options.h"
#include "server/error.h"
#include "server/jobs/beam.h"
#include "server/jobs/generate.h"
#include "server/jobs/input_jobs.h"
#include "server/transport/wire.h"

namespace heed {
namespace {

std::string_view ReasonText(Finished::Reason reason) {
  return reason == Finished::Reason::kMaxTokens ? "length" : "stop";
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

// The inputs of the call. It holds the call, and the call holds it until both have ended.
class GenerateCall::Jobs final : public InputJobs {
 public:
  Jobs(std::shared_ptr<GenerateCall> call, GenerateOptions options, const BeamOptions& beam)
      : InputJobs(call->api_.edge, call->model_, call->request_.inputs_size()),
        call_(std::move(call)),
        options_(std::move(options)),
        beam_(beam),
        longest_(MaxTokens(model_->info(), call_->api_.limits())),
        reader_(model_, call_->metrics_, &call_->api_.edge->clock(), call_->api_.limits(),
                call_->request_.text(),
                LongestPrompt(call_->request_, model_->info(), call_->api_.limits())) {}

 private:
  absl::StatusOr<std::shared_ptr<Job>> Make(int i) override {
    const std::string where = Cat("inputs[", i, "]");
    ASSIGN_OR_RETURN(TokenInput read, reader_.Read(call_->request_.inputs(i), where));
    GenerateOptions options = options_;
    GenerateInput input{.tokenizer = model_->tokenizer(), .index = i, .events = call_->events_};
    input.input = Prompt(std::move(read.ids));
    auto most =
        MaxNewTokens(options.stopping.max_tokens, static_cast<int64_t>(input.input.ids.size()), longest_);
    if (!most.ok()) return AtField(most.status(), where);
    options.stopping.max_tokens = *most;
    auto self = std::static_pointer_cast<Jobs>(shared_from_this());
    auto done = [self, i](const absl::Status&) { self->Ended(i); };
    auto job = beam_.width > 0 ? NewBeamJob(std::move(input), options.stopping, beam_, std::move(done))
                               : NewGenerateJob(std::move(input), options, std::move(done));
    return job.ok() ? std::move(job) : AtField(job.status(), where);
  }

  JobInput Prompt(std::vector<int32_t> ids) const {
    JobInput input{.model = &model_->model(), .ids = std::move(ids), .urgency = HowUrgent()};
    const ModelInfo& info = model_->info();
    if (info.architecture == Architecture::kEncoderDecoder)
      input.source = std::exchange(input.ids, {info.decoder_start_token_id});
    return input;
  }

  Urgency HowUrgent() const {
    return {.priority = call_->request_.target().priority(), .deadline = call_->deadline()};
  }

  void Refused(int i, const absl::Status& status) override {
    const int samples = beam_.width > 0 ? beam_.results : options_.samples;
    for (int sample = 0; sample < samples; ++sample)
      call_->events_->Add({.input = i, .sample = sample, .what = status});
  }

  void Complete() override { call_->Completed(); }

  const std::shared_ptr<GenerateCall> call_;
  const GenerateOptions options_;
  const BeamOptions beam_;  // width 0: samples are drawn
  const int64_t longest_;
  const InputReader reader_;
};

GenerateCall::GenerateCall(const ApiContext& api, const Method& method, grpc::CallbackServerContext* context,
                           const grpc::ByteBuffer* request)
    : StreamCall(api.edge, method, context, request), api_(api) {}

absl::Status GenerateCall::Open(const grpc::ByteBuffer& bytes) {
  RETURN_IF_ERROR(Parse(bytes, &request_));
  ASSIGN_OR_RETURN(model_, FindFor("Generate", request_.target(), *api_.registry));
  ASSIGN_OR_RETURN(GenerateOptions options, ToOptions(request_, model_->info(), api_.limits()));
  BeamOptions beam;
  if (request_.has_beam()) {
    ASSIGN_OR_RETURN(beam, ToBeam(request_));
  }
  RETURN_IF_ERROR(CheckCount(request_.inputs_size(), api_.limits().generate_inputs()));
  metrics_ = api_.metrics->ForModel(model_->spec, model_->info());
  events_ = std::make_shared<StreamBuffer>([weak = weak_from_this()] {
    if (auto call = weak.lock()) call->Wake();
  });
  auto jobs = std::make_shared<Jobs>(std::static_pointer_cast<GenerateCall>(shared_from_this()),
                                     std::move(options), beam);
  {
    std::lock_guard lock(mutex_);
    jobs_ = jobs;
    if (abandoned_) jobs->Cancel();
  }
  jobs->Start();
  return absl::OkStatus();
}

GenerateCall::Next GenerateCall::Take() {
  bool complete;  // asked before the events, whose last one came earlier
  {
    std::lock_guard lock(mutex_);
    complete = complete_;
  }
  Next next;
  if (auto event = TakeEvent()) {
    next.message = Serialize(ToMessage(*event, *model_, request_.details()));
  } else if (complete) {
    next.end = any_finished_ ? absl::OkStatus() : first_error_;
  }
  return next;
}

// The next event to be told, if there is one.
std::optional<StreamEvent> GenerateCall::TakeEvent() {
  while (!started_ || held_.empty()) {
    auto event = events_->Next();
    if (!event) return std::nullopt;
    Measure(*event);
    const auto* error = std::get_if<absl::Status>(&event->what);
    if (error && first_error_.ok()) first_error_ = *error;
    any_finished_ |= std::holds_alternative<Finished>(event->what);
    started_ |= error == nullptr;
    if (started_ && held_.empty()) return event;
    held_.push_back(*std::move(event));
  }
  StreamEvent event = std::move(held_.front());
  held_.pop_front();
  return event;
}

void GenerateCall::Measure(const StreamEvent& event) {
  const Time now = edge().clock().Now();
  if (const auto* piece = std::get_if<Piece>(&event.what); piece && !piece->tokens.empty()) {
    std::lock_guard lock(mutex_);
    const int64_t tokens = static_cast<int64_t>(piece->tokens.size());
    auto [last, first] = last_token_.try_emplace({event.input, event.sample}, now);
    if (first) metrics_->FirstToken(now - arrival());
    metrics_->MoreTokens(first ? tokens - 1 : tokens, now - last->second);
    last->second = now;
  } else if (const auto* finished = std::get_if<Finished>(&event.what)) {
    Usage usage = finished->usage;
    if (event.sample > 0) usage.input_tokens = 0;  // the samples read their prompt together
    metrics_->Spent(usage);
    metrics_->Succeeded(ReasonText(finished->reason), now - arrival());
  } else if (const auto* error = std::get_if<absl::Status>(&event.what)) {
    metrics_->Failed(*error, now - arrival());
  }
}

void GenerateCall::Abandon(bool at_deadline) {
  std::shared_ptr<Jobs> jobs;
  bool complete;
  {
    std::lock_guard lock(mutex_);
    abandoned_ = true;
    jobs = jobs_;
    complete = complete_;
  }
  if (jobs && !at_deadline) jobs->Cancel();
  if (complete) MeasureRest();
}

void GenerateCall::Completed() {
  bool abandoned;
  {
    std::lock_guard lock(mutex_);
    complete_ = true;
    abandoned = abandoned_;
    jobs_.reset();
  }
  abandoned ? MeasureRest() : Wake();
}

// What nobody reads any more still counts.
void GenerateCall::MeasureRest() {
  while (auto event = events_->Next()) Measure(*event);
}

}  // namespace heed
