#include "server/api/answers.h"

#include <chrono>
#include <span>

#include "engine/text/unicode.h"
#include "google/protobuf/util/time_util.h"
#include "server/api/inputs.h"
#include "server/error.h"

namespace heed {
namespace {

v1::LabelScore ToMessage(const LabelScore& label) {
  v1::LabelScore message;
  message.set_label(label.label);
  message.set_index(label.index);
  message.set_score(label.score);
  return message;
}

// A token as TokenLogprob and TopLogprob tell it.
template <typename Message>
void Tell(int32_t token, float logprob, const Tokenizer* tokenizer, Message* out) {
  out->set_id(token);
  out->set_logprob(logprob);
  if (tokenizer == nullptr) return;
  std::string bytes = tokenizer->TokenBytes(token);
  out->set_text(ReplaceInvalidUtf8(bytes));
  out->set_bytes(std::move(bytes));
}

v1::TokenLogprob ToMessage(const TokenChoice& choice, const Tokenizer* tokenizer) {
  v1::TokenLogprob message;
  Tell(choice.token, choice.logprob, tokenizer, &message);
  for (const auto& [token, logprob] : choice.top) Tell(token, logprob, tokenizer, message.add_top());
  return message;
}

v1::FinishReason ToMessage(Finished::Reason reason) {
  switch (reason) {
    case Finished::Reason::kEndToken:
      return v1::FINISH_REASON_END_TOKEN;
    case Finished::Reason::kStopString:
      return v1::FINISH_REASON_STOP_STRING;
    case Finished::Reason::kMaxTokens:
      return v1::FINISH_REASON_MAX_TOKENS;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

// Writes what happened into an event.
struct EventWriter {
  v1::GenerateEvent& message;
  const ServedModel& model;
  const v1::GenerateDetails& details;

  void operator()(const Started& started) const {
    auto* out = message.mutable_started();
    out->set_model(model.spec.name);
    out->set_version(model.spec.version);
    out->set_input_tokens(static_cast<int32_t>(started.input_tokens));
    out->set_seed(started.seed);
  }
  void operator()(const Piece& piece) const {
    auto* out = message.mutable_piece();
    out->set_text(piece.text);
    for (const TokenChoice& choice : piece.tokens) {
      if (details.tokens() || Draws(model)) out->add_tokens(choice.token);
      if (details.logprobs()) *out->add_logprobs() = ToMessage(choice, model.tokenizer());
    }
  }
  void operator()(const Finished& finished) const {
    auto* out = message.mutable_finished();
    out->set_reason(ToMessage(finished.reason));
    *out->mutable_usage() = heed::ToMessage(finished.usage);
    if (finished.stop_token) out->set_stop_token(*finished.stop_token);
    if (!finished.stop_string.empty()) out->set_stop_string(finished.stop_string);
    if (finished.score) out->set_score(*finished.score);
  }
  void operator()(const absl::Status& status) const { *message.mutable_error() = ToError(status); }
};

}  // namespace

v1::Error ToError(const absl::Status& status) {
  v1::Error error;
  error.set_code(static_cast<int>(status.code()));
  error.set_reason(std::string(Name(ReasonOf(status))));
  error.set_field(FieldOf(status));
  error.set_message(std::string(status.message()));
  if (const auto delay = RetryDelayOf(status)) {
    *error.mutable_retry_delay() = google::protobuf::util::TimeUtil::NanosecondsToDuration(
        std::chrono::duration_cast<std::chrono::nanoseconds>(*delay).count());
  }
  return error;
}

v1::Usage ToMessage(const Usage& usage) {
  v1::Usage message;
  message.set_input_tokens(static_cast<int32_t>(usage.input_tokens));
  message.set_output_tokens(static_cast<int32_t>(usage.output_tokens));
  message.set_queue_seconds(ToSeconds(usage.queued));
  message.set_compute_seconds(ToSeconds(usage.prefill + usage.decode));
  return message;
}

v1::Classification ToMessage(const Classified& answer) {
  v1::Classification message;
  for (const LabelScore& label : answer.labels) *message.add_labels() = ToMessage(label);
  *message.mutable_usage() = ToMessage(answer.usage);
  return message;
}

v1::Classification ToMessage(const ClassifiedRows& answer) {
  v1::Classification message;
  for (const std::vector<LabelScore>& labels : answer.rows) {
    v1::ClassifiedRow& row = *message.add_rows();
    for (const LabelScore& label : labels) *row.add_labels() = ToMessage(label);
  }
  *message.mutable_usage() = ToMessage(answer.usage);
  return message;
}

v1::Classification ToMessage(const ClassifiedTokens& answer) {
  v1::Classification message;
  for (const LabelledSpan& span : answer.spans) {
    auto* out = message.add_spans();
    out->set_begin(span.begin);
    out->set_end(span.end);
    *out->mutable_label() = ToMessage(span.label);
  }
  *message.mutable_usage() = ToMessage(answer.usage);
  return message;
}

v1::Embedding ToMessage(const Embedded& answer) {
  v1::Embedding message;
  message.mutable_vector()->Add(answer.vector.begin(), answer.vector.end());
  *message.mutable_usage() = ToMessage(answer.usage);
  return message;
}

v1::Scored ToMessage(const Scored& answer, const Tokenizer* tokenizer, bool logprobs) {
  v1::Scored message;
  message.set_logprob(answer.logprob);
  message.set_scored_tokens(static_cast<int32_t>(answer.by_token.size()));
  if (logprobs) {
    for (const TokenChoice& choice : answer.by_token) *message.add_logprobs() = ToMessage(choice, tokenizer);
  }
  *message.mutable_usage() = ToMessage(answer.usage);
  return message;
}

v1::Filled ToMessage(const Filled& answer, const Tokenizer* tokenizer) {
  v1::Filled message;
  for (const Filled::Position& position : answer.positions) {
    auto* out = message.add_positions();
    out->set_position(position.position);
    for (const auto& [token, logprob] : position.tokens) Tell(token, logprob, tokenizer, out->add_tokens());
  }
  *message.mutable_usage() = ToMessage(answer.usage);
  return message;
}

v1::GenerateEvent ToMessage(const StreamEvent& event, const ServedModel& model,
                            const v1::GenerateDetails& details) {
  v1::GenerateEvent message;
  message.set_input(event.input);
  message.set_sample(event.sample);
  std::visit(EventWriter{message, model, details}, event.what);
  return message;
}

}  // namespace heed
