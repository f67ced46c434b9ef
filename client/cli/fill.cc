// heed fill: the likeliest tokens where a text has the model's mask token, a line a position.
#include <cmath>

#include "absl/strings/str_format.h"
#include "client/cli/call.h"
#include "client/cli/command.h"

namespace heed::cli {
namespace {

void Print(const v1::Filled& value, Terminal& terminal) {
  for (const v1::Filled::Position& position : value.positions()) {
    terminal.out << "position " << position.position() << ":";
    for (const v1::TopLogprob& token : position.tokens()) {
      terminal.out << absl::StrFormat("  %s %.4f", Quoted(token.bytes()), std::exp(token.logprob()));
    }
    terminal.out << "\n";
  }
}

}  // namespace

int Fill(Arguments& arguments, Terminal& terminal) {
  int32_t top = 5;
  arguments.Flag("top", &top, "tokens for a position, 1 to 100", {1, 100});
  std::vector<int32_t> positions;
  arguments.Flag("position", &positions,
                 "the place of a token to fill, counted from 0; unset: where the mask token stands",
                 {0, 1 << 30});
  ServerFlags server(arguments);
  TextFlags flags(arguments);
  DetailsFlags details(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;
  if (std::optional<int> wrong = details.Wrong(arguments, server, terminal)) return *wrong;

  TextCall<v1::FillRequest, v1::FillResponse> call;
  flags.Set(call.request.mutable_target(), call.request.mutable_text());
  details.Set(&call.request);
  call.request.mutable_options()->set_top(top);
  call.request.mutable_options()->mutable_positions()->Assign(positions.begin(), positions.end());
  call.method = &Client::Fill;
  call.add = [&](const Text& text, v1::FillRequest& request) {
    return flags.ToInput(text, request.add_inputs());
  };
  call.print = [&](const Text&, const v1::FillResponse::Result& result) { Print(result.value(), terminal); };
  Texts texts(arguments.texts(), flags.files, Unit::kLine, terminal);
  return AnswerTexts(server, texts, call, terminal);
}

}  // namespace heed::cli
