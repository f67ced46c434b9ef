#include "server/api/generate_call.h"

#include "engine/base/status.h"
#include "server/api/answers.h"
#include "server/error.h"
#include "server/transport/wire.h"

namespace heed {

GenerateCall::GenerateCall(const ApiContext& api, const Method& method, grpc::CallbackServerContext* context,
                           const grpc::ByteBuffer* request)
    : StreamCall(api.edge, method, context, request), api_(api) {}

absl::Status GenerateCall::Open(const grpc::ByteBuffer& bytes) {
  auto request = std::make_shared<v1::GenerateRequest>();
  RETURN_IF_ERROR(Parse(bytes, request.get()));
  request_ = std::move(request);
  ASSIGN_OR_RETURN(GeneratePlan plan, PlanOf(*request_, api_, rights(), &record()));
  plan.arrival = arrival();
  plan.deadline = deadline();
  plan.request_id = request_id();
  plan.trace = trace();
  model_ = plan.model;
  events_.emplace(int64_t{request_->inputs_size()} * plan.samples());
  auto wake = [weak = weak_from_this()] {
    if (auto call = weak.lock()) static_cast<GenerateCall&>(*call).Wake();
  };
  inputs_ = std::make_shared<GenerateInputs>(api_, request_, plan, std::move(wake), client_gone_.get_token());
  inputs_->Start();
  return absl::OkStatus();
}

GenerateCall::Next GenerateCall::Take() {
  while (true) {
    if (const auto event = events_->Next()) return Tell(*event);
    if (auto end = events_->end()) {
      const absl::Status refusal = inputs_->refusal();
      return {.message = std::nullopt,
              .end = About(refusal.ok() ? *end : refusal, "model", model_->spec.name)};
    }
    auto event = inputs_->Next();
    if (!event) return {};
    MeasureTaken(*event);
    Record(*event);
    events_->Add(*std::move(event));
  }
}

GenerateCall::Next GenerateCall::Tell(const StreamEvent& event) {
  const v1::GenerateEvent message = ToMessage(event, *model_, request_->details());
  const auto bytes = static_cast<int64_t>(message.ByteSizeLong());
  const int64_t most = api_.config->transport().send_bytes();
  if (bytes <= most) return {.message = Serialize(message), .end = std::nullopt};
  const absl::Status status = Error(ErrorReason::kAnswerTooLarge, "an event of the stream has ", bytes,
                                    " bytes, and a message from the server at most ", most);
  inputs_->Stop(status);
  return {.message = std::nullopt, .end = status};
}

void GenerateCall::MeasureTaken(const StreamEvent& event) {
  const auto* piece = std::get_if<Piece>(&event.what);
  if (piece == nullptr || piece->tokens.empty()) return;
  const Time now = edge().clock().Now();
  ModelMetrics* metrics = api_.metrics->Of(*model_);
  const int64_t tokens = std::ssize(piece->tokens);
  auto [place, first] = taken_.try_emplace({event.input, event.sample}, Taken{.last = now});
  Taken& taken = place->second;
  if (first) metrics->FirstTokenTaken(now - arrival());
  metrics->MoreTokensTaken(first ? tokens - 1 : tokens, now - taken.last);
  taken.last = now;
  taken.tokens += tokens;
}

// Of a text that ends early what was taken of it; one that finishes has tokens that no piece tells, too.
void GenerateCall::Record(const StreamEvent& event) {
  if (const auto* started = std::get_if<Started>(&event.what)) {
    if (event.sample == 0)
      record().Add({.tokens_read = started->input_tokens});  // the samples read their prompt together
  } else if (const auto* piece = std::get_if<Piece>(&event.what)) {
    record().Add({.tokens_made = std::ssize(piece->tokens)});
  } else if (const auto* finished = std::get_if<Finished>(&event.what)) {
    const int64_t told = taken_[{event.input, event.sample}].tokens;
    record().Add({.tokens_made = finished->usage.output_tokens - told, .queued = finished->usage.queued});
  }
}

void GenerateCall::Abandon(bool at_deadline) {
  if (!at_deadline) client_gone_.request_stop();  // at the deadline the jobs end by themselves
}

}  // namespace heed
