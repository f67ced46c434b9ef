// heed score: how likely each text is as the continuation of a context.
#include "absl/strings/str_format.h"
#include "client/cli/call.h"
#include "client/cli/command.h"

namespace heed {
namespace {

void Print(const Text& text, const v1::Scored& value, Terminal& terminal) {
  terminal.out << absl::StrFormat("%.4f  %d tokens  %s\n", value.logprob(), value.tokens(),
                                  OneLine(text.text));
  for (const v1::TokenLogprob& token : value.by_token()) {
    terminal.out << absl::StrFormat("  %.4f  %s\n", token.logprob(), Quoted(token.text()));
  }
}

}  // namespace

int Score(Arguments& arguments, Terminal& terminal) {
  std::optional<std::string> context;
  bool by_token = false;
  arguments.Flag(
      "context", &context,
      "what comes before, of an encoder-decoder the source; without it a text's first token has no score");
  arguments.Flag("by_token", &by_token, "each token's log-probability too");
  ServerFlags server(arguments);
  TextFlags flags(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;
  if (flags.reading == Reading::kPair) return arguments.Wrong(terminal, "--as=pair: must be text or tokens");

  TextCall<v1::ScoreRequest, v1::ScoreResponse> call;
  flags.Set(call.request.mutable_target(), call.request.mutable_text());
  call.request.mutable_options()->set_logprobs(by_token);
  call.method = &Client::Score;
  call.add = [&](const Text& text, v1::ScoreRequest& request) -> absl::Status {
    v1::ScoreItem* item = request.add_inputs();
    if (context) RETURN_IF_ERROR(ToInput({*context, "--context"}, flags.reading, item->mutable_context()));
    return ToInput(text, flags.reading, item->mutable_continuation());
  };
  call.print = [&](const Text& text, const v1::ScoreResponse::Result& result) {
    Print(text, result.value(), terminal);
  };
  Texts texts(arguments.texts(), flags.files, Unit::kLine, terminal);
  return AnswerTexts(server, texts, call, terminal);
}

}  // namespace heed
