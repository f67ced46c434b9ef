// heed embed: a vector for each text, its numbers with spaces between, a line a text.
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "client/cli/call.h"
#include "client/cli/command.h"

namespace heed::cli {
namespace {

void Print(const v1::Embedding& value, Terminal& terminal) {
  std::string_view gap = "";
  for (const float number : value.vector()) {
    terminal.out << gap << absl::StrFormat("%.9g", number);  // nine digits give the same float back
    gap = " ";
  }
  terminal.out << "\n";
}

}  // namespace

int Embed(Arguments& arguments, Terminal& terminal) {
  auto normalize = v1::EmbedOptions::NORMALIZE_UNSPECIFIED;
  arguments.Choice(
      "normalize", &normalize,
      "vectors of length 1: yes; as they are before any normalisation: no; as the model says: model",
      {{"model", v1::EmbedOptions::NORMALIZE_UNSPECIFIED},
       {"yes", v1::EmbedOptions::NORMALIZE_YES},
       {"no", v1::EmbedOptions::NORMALIZE_NO}});
  int32_t dimensions = 0;
  std::optional<std::string> prompt_name;
  arguments.Flag("dimensions", &dimensions, "only the first so many numbers of a vector; 0: all",
                 {0, std::numeric_limits<int32_t>::max()});
  arguments.Flag("prompt_name", &prompt_name,
                 "which of the model's prompts stands before each text (heed describe lists them); nothing "
                 "after the = for none; unset: as the model says");
  ServerFlags server(arguments);
  TextFlags flags(arguments);
  DetailsFlags details(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;
  if (std::optional<int> wrong = details.Wrong(arguments, server, terminal)) return *wrong;

  TextCall<v1::EmbedRequest, v1::EmbedResponse> call;
  flags.Set(call.request.mutable_target(), call.request.mutable_text());
  details.Set(&call.request);
  call.request.mutable_options()->set_normalize(normalize);
  call.request.mutable_options()->set_dimensions(dimensions);
  if (prompt_name) call.request.mutable_options()->set_prompt_name(*prompt_name);
  call.method = &Client::Embed;
  call.add = [&](const Text& text, v1::EmbedRequest& request) {
    return flags.ToInput(text, request.add_inputs());
  };
  call.print = [&](const Text&, const v1::EmbedResponse::Result& result) { Print(result.value(), terminal); };
  Texts texts(arguments.texts(), flags.files, Unit::kLine, terminal);
  return AnswerTexts(server, texts, call, terminal);
}

}  // namespace heed::cli
