// heed detokenize: the text of token ids, which have spaces or commas between; a line a list of ids.
#include "client/cli/call.h"
#include "client/cli/command.h"

namespace heed::cli {

int Detokenize(Arguments& arguments, Terminal& terminal) {
  std::string model, version;
  std::vector<std::string> files;
  bool skip_special_tokens = false;
  arguments.Flag("model", &model, "its name; not needed where the server has only one");
  arguments.Flag("version", &version, "of the model; not needed where it has only one");
  arguments.Flag("file", &files, "read this file; - and no ids at all is standard input").is_path = true;
  arguments.Flag("skip_special_tokens", &skip_special_tokens, "leave special tokens out of the text");
  ServerFlags server(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;

  TextCall<v1::DetokenizeRequest, v1::DetokenizeResponse> call;
  call.request.mutable_target()->set_model(model);
  call.request.mutable_target()->set_version(version);
  call.request.mutable_options()->set_skip_special_tokens(skip_special_tokens);
  call.method = &Client::Detokenize;
  call.add = [](const Text& ids, v1::DetokenizeRequest& request) {
    v1::Input input;
    const absl::Status status = ToInput(ids, InputForm::kTokens, &input);
    *request.add_inputs() = input.tokens();
    return status;
  };
  call.print = [&](const Text&, const v1::DetokenizeResponse::Result& result) {
    terminal.out << ForScreen(result.value().text()) << "\n";
  };
  call.unit = "ids";
  Texts texts(arguments.texts(), files, Unit::kLine, terminal);
  return AnswerTexts(server, texts, call, terminal);
}

}  // namespace heed::cli
