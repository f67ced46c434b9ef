// heed score: how likely each text is as the continuation of a context.
#include "absl/strings/str_format.h"
#include "client/cli/call.h"
#include "client/cli/command.h"

namespace heed::cli {
namespace {

void Print(const Text& text, const v1::Scored& value, Terminal& terminal) {
  terminal.out << absl::StrFormat("%.4f  %d tokens  %s\n", value.logprob(), value.scored_tokens(),
                                  OneLine(text.text));
  for (const v1::TokenLogprob& token : value.logprobs()) terminal.out << "  " << LogprobLine(token);
}

}  // namespace

int Score(Arguments& arguments, Terminal& terminal) {
  std::optional<std::string> context;
  bool logprobs = false;
  int32_t top_logprobs = 0;
  arguments.Flag(
      "context", &context,
      "what comes before, of an encoder-decoder the source; without it a text's first token has no score");
  arguments.Flag("logprobs", &logprobs, "each token's log-probability too");
  arguments.Flag("top_logprobs", &top_logprobs, "and of the n likeliest in its place, 0 to 20", {0, 20});
  ServerFlags server(arguments);
  TextFlags flags(arguments);
  DetailsFlags details(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;
  if (std::optional<int> wrong = details.Wrong(arguments, server, terminal)) return *wrong;
  if (flags.form != InputForm::kText && flags.form != InputForm::kTokens)
    return arguments.Wrong(terminal, "--as: must be text or tokens");

  TextCall<v1::ScoreRequest, v1::ScoreResponse> call;
  flags.Set(call.request.mutable_target(), call.request.mutable_text());
  details.Set(&call.request);
  call.request.mutable_options()->set_logprobs(logprobs || top_logprobs > 0);
  call.request.mutable_options()->set_top_logprobs(top_logprobs);
  call.method = &Client::Score;
  call.add = [&](const Text& text, v1::ScoreRequest& request) -> absl::Status {
    v1::ScoreItem* item = request.add_inputs();
    if (context) RETURN_IF_ERROR(flags.ToInput({*context, "--context"}, item->mutable_context()));
    return ToInput(text, flags.form, item->mutable_continuation());
  };
  call.print = [&](const Text& text, const v1::ScoreResponse::Result& result) {
    Print(text, result.value(), terminal);
  };
  Texts texts(arguments.texts(), flags.files, Unit::kLine, terminal);
  return AnswerTexts(server, texts, call, terminal);
}

}  // namespace heed::cli
