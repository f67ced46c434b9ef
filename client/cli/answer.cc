// heed answer: where in the context the answer to each question stands, a line a span: score, characters,
// text.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "engine/base/file.h"
#include "engine/text/tokenizer.h"

namespace heed::cli {
namespace {

constexpr int64_t kMostContextBytes = 1 << 30;

struct AnswerFlags {
  explicit AnswerFlags(Arguments& arguments);
  // The text that is asked about.
  absl::StatusOr<std::string> Context() const;
  v1::AnswerRequest Request() const;  // all but the questions

  std::string context, context_file, model, version;
  std::vector<std::string> files;
  int32_t priority = 0, top = 1, max_answer_tokens = 15;
  bool truncate = false, no_answer = false;
};

AnswerFlags::AnswerFlags(Arguments& arguments) {
  arguments.Flag("context", &context, "the text in which the answers stand");
  arguments.Flag("context_file", &context_file, "a file with that text").is_path = true;
  arguments.Flag("top", &top, "spans for a question, best first, 1 to 100", {1, 100});
  arguments.Flag("max_answer_tokens", &max_answer_tokens, "the longest span, 1 to 1024", {1, 1024});
  arguments.Flag("no_answer", &no_answer,
                 "how sure the model is that there is no answer, in a line of its own");
  arguments.Flag("model", &model, "its name; not needed where the server has only one");
  arguments.Flag("version", &version, "of the model; not needed where it has only one");
  arguments.Flag("priority", &priority, "higher is served first, -10 to 10", {-10, 10});
  arguments.Flag("file", &files, "questions, a line each; - and no text at all is standard input").is_path =
      true;
  arguments.Flag("truncate", &truncate, "cut what is longer than the model reads, instead of refusing it");
}

absl::StatusOr<std::string> AnswerFlags::Context() const {
  if (context_file.empty()) return context;
  ASSIGN_OR_RETURN(std::string text, ReadNamedFile(context_file, kMostContextBytes));
  if (!ValidUtf8(text)) return Invalid(context_file, ": it is not UTF-8");
  return text;
}

v1::AnswerRequest AnswerFlags::Request() const {
  v1::AnswerRequest request;
  request.mutable_target()->set_model(model);
  request.mutable_target()->set_version(version);
  request.mutable_target()->set_priority(priority);
  request.mutable_text()->set_truncate(truncate);
  request.mutable_options()->set_top(top);
  request.mutable_options()->set_max_answer_tokens(max_answer_tokens);
  request.mutable_options()->set_no_answer(no_answer);
  return request;
}

void Print(const v1::Answered& value, Terminal& terminal) {
  for (const v1::AnswerSpan& span : value.spans()) {
    terminal.out << absl::StrFormat("%.4f  %d-%d  %s\n", span.score(), span.begin(), span.end(),
                                    OneLine(span.text()));
  }
  if (value.has_no_answer_score())
    terminal.out << absl::StrFormat("%.4f  no answer\n", value.no_answer_score());
}

}  // namespace

int AnswerQuestions(Arguments& arguments, Terminal& terminal) {
  AnswerFlags flags(arguments);
  ServerFlags server(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;
  if (flags.context.empty() == flags.context_file.empty())
    return arguments.Wrong(terminal, "one of --context and --context_file must say where the answers stand");
  const absl::StatusOr<std::string> context = flags.Context();
  if (!context.ok()) return Fail(terminal, context.status());

  TextCall<v1::AnswerRequest, v1::AnswerResponse> call;
  call.request = flags.Request();
  call.method = &Client::Answer;
  call.unit = "question";
  call.add = [&](const Text& question, v1::AnswerRequest& request) {
    v1::Question* input = request.add_inputs();
    input->set_question(question.text);
    input->set_context(*context);
    return absl::OkStatus();
  };
  call.print = [&](const Text&, const v1::AnswerResponse::Result& result) {
    Print(result.value(), terminal);
  };
  Texts texts(arguments.texts(), flags.files, Unit::kLine, terminal);
  return AnswerTexts(server, texts, call, terminal);
}

}  // namespace heed::cli
