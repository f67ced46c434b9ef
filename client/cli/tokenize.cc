// heed tokenize: the ids of the tokens that a model reads of each text, a line a text; with --pieces a line a
// token.
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/call.h"
#include "client/cli/command.h"

namespace heed::cli {
namespace {

// "1996  "##ing"  4-7"
std::string PieceLine(int32_t id, const v1::TokenPiece& piece) {
  const std::string characters = Cat(piece.begin(), "-", piece.end());
  return absl::StrFormat("%d  %s  %s\n", id, Quoted(piece.spelling()),
                         piece.origin() == v1::TOKEN_ORIGIN_ADDED    ? "added"
                         : piece.origin() == v1::TOKEN_ORIGIN_SECOND ? characters + " of the second"
                                                                     : characters);
}

void Print(const v1::Tokenized& value, Terminal& terminal) {
  if (value.pieces().empty()) terminal.out << absl::StrJoin(value.tokens().ids(), " ") << "\n";
  for (int i = 0; i < value.pieces_size(); ++i)
    terminal.out << PieceLine(value.tokens().ids(i), value.pieces(i));
}

}  // namespace

int Tokenize(Arguments& arguments, Terminal& terminal) {
  std::string model, version;
  std::vector<std::string> files;
  bool truncate = false, special_tokens = true, pieces = false;
  int32_t max_tokens = 0;
  InputForm form = InputForm::kText;
  arguments.Flag("model", &model, "its name; not needed where the server has only one");
  arguments.Flag("version", &version, "of the model; not needed where it has only one");
  arguments.Flag("file", &files, "read this file; - and no text at all is standard input").is_path = true;
  arguments.Flag("pieces", &pieces, "a line a token: its id, how the vocabulary spells it, its characters");
  arguments.Flag("truncate", &truncate, "cut what is longer than the model reads");
  arguments.Flag("max_tokens", &max_tokens, "cut to so many tokens, special ones included; 0: all",
                 {0, std::numeric_limits<int32_t>::max()});
  arguments.Flag("special_tokens", &special_tokens,
                 "add the tokenizer's special tokens; --nospecial_tokens: do not");
  arguments.Choice("as", &form,
                   "what a text is: text, pair (two texts, a tab between) or chat (a message, which the "
                   "model's chat template makes a conversation)",
                   {{"text", InputForm::kText}, {"pair", InputForm::kPair}, {"chat", InputForm::kChat}});
  ServerFlags server(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;

  TextCall<v1::TokenizeRequest, v1::TokenizeResponse> call;
  call.request.mutable_target()->set_model(model);
  call.request.mutable_target()->set_version(version);
  call.request.mutable_text()->set_truncate(truncate);
  call.request.mutable_text()->set_without_special_tokens(!special_tokens);
  call.request.mutable_options()->set_max_tokens(max_tokens);
  call.request.mutable_options()->set_pieces(pieces);
  call.method = &Client::Tokenize;
  call.add = [&](const Text& text, v1::TokenizeRequest& request) {
    return ToInput(text, form, request.add_inputs());
  };
  call.print = [&](const Text&, const v1::TokenizeResponse::Result& result) {
    Print(result.value(), terminal);
  };
  Texts texts(arguments.texts(), files, Unit::kLine, terminal);
  return AnswerTexts(server, texts, call, terminal);
}

}  // namespace heed::cli
