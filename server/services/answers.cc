#include "server/services/answers.h"

#include <chrono>
#include <span>

#include "server/services/wire.h"

namespace heed {
namespace {

double Seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

v1::LabelScore ToMessage(const LabelScore& label) {
  v1::LabelScore message;
  message.set_label(label.label);
  message.set_index(label.index);
  message.set_score(label.score);
  return message;
}

v1::TokenLogprob ToMessage(int32_t token, float logprob, const Tokenizer* tokenizer) {
  v1::TokenLogprob message;
  message.set_token(token);
  message.set_logprob(logprob);
  if (tokenizer != nullptr)
    message.set_text(tokenizer->Decode(std::span(&token, 1), /*skip_special_tokens=*/false));
  return message;
}

v1::TokenLogprob ToMessage(const TokenChoice& choice, const Tokenizer* tokenizer) {
  v1::TokenLogprob message = ToMessage(choice.token, choice.logprob, tokenizer);
  for (const auto& [token, logprob] : choice.top) *message.add_top() = ToMessage(token, logprob, tokenizer);
  return message;
}

v1::GenerateEvent::Reason ToMessage(Finished::Reason reason) {
  switch (reason) {
    case Finished::Reason::kEndToken:
      return v1::GenerateEvent::END_TOKEN;
    case Finished::Reason::kStopString:
      return v1::GenerateEvent::STOP_STRING;
    case Finished::Reason::kMaxTokens:
      return v1::GenerateEvent::MAX_TOKENS;
  }
  return v1::GenerateEvent::UNSPECIFIED;
}

// Writes what happened into an event.
struct EventWriter {
  v1::GenerateEvent& message;
  const ServedModel& model;
  const v1::DetailOptions& details;

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
      if (details.tokens()) out->add_tokens(choice.token);
      if (details.logprobs()) *out->add_logprobs() = ToMessage(choice, model.tokenizer());
    }
  }
  void operator()(const Finished& finished) const {
    auto* out = message.mutable_finished();
    out->set_reason(ToMessage(finished.reason));
    *out->mutable_usage() = heed::ToMessage(finished.usage);
    out->set_stop_string(finished.stop_string);
    out->set_score(finished.score);
  }
  void operator()(const absl::Status& status) const { *message.mutable_error() = ToError(status); }
};

}  // namespace

v1::Usage ToMessage(const Usage& usage) {
  v1::Usage message;
  message.set_input_tokens(static_cast<int32_t>(usage.input_tokens));
  message.set_output_tokens(static_cast<int32_t>(usage.output_tokens));
  message.set_queue_seconds(Seconds(usage.queued));
  message.set_compute_seconds(Seconds(usage.prefill + usage.decode));
  return message;
}

v1::Classification ToMessage(const Classified& answer) {
  v1::Classification message;
  for (const LabelScore& label : answer.labels) *message.add_labels() = ToMessage(label);
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

v1::Scored ToMessage(const Scored& answer, const Tokenizer* tokenizer, bool by_token) {
  v1::Scored message;
  message.set_logprob(answer.logprob);
  message.set_tokens(static_cast<int32_t>(answer.by_token.size()));
  if (by_token) {
    for (const TokenChoice& choice : answer.by_token) *message.add_by_token() = ToMessage(choice, tokenizer);
  }
  *message.mutable_usage() = ToMessage(answer.usage);
  return message;
}

v1::Filled ToMessage(const Filled& answer, const Tokenizer* tokenizer) {
  v1::Filled message;
  for (const Filled::Position& position : answer.positions) {
    auto* out = message.add_positions();
    out->set_position(position.position);
    for (const auto& [token, logprob] : position.tokens)
      *out->add_tokens() = ToMessage(token, logprob, tokenizer);
  }
  *message.mutable_usage() = ToMessage(answer.usage);
  return message;
}

v1::GenerateEvent ToMessage(const StreamEvent& event, const ServedModel& model,
                            const v1::DetailOptions& details) {
  v1::GenerateEvent message;
  message.set_input(event.input);
  message.set_sample(event.sample);
  std::visit(EventWriter{message, model, details}, event.what);
  return message;
}

}  // namespace heed
