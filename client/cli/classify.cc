// heed classify: labels with scores, a line a text; where the model labels tokens, a line a span.
#include "absl/strings/str_format.h"
#include "client/cli/call.h"
#include "client/cli/command.h"

namespace heed::cli {
namespace {

std::string LabelText(const v1::LabelScore& label) {
  return absl::StrFormat("%s %.4f", OneLine(label.label()), label.score());
}

// Characters [begin, end) of a text.
std::string_view Characters(std::string_view utf8, int64_t begin, int64_t end) {
  size_t at = 0, first = utf8.size();
  for (int64_t character = -1; at < utf8.size(); ++at) {
    if ((static_cast<unsigned char>(utf8[at]) & 0xC0) == 0x80) continue;
    ++character;
    if (character == begin) first = at;
    if (character == end) break;
  }
  return utf8.substr(std::min(first, at), at - std::min(first, at));
}

void Print(const Text& text, const v1::Classification& value, InputForm form, Terminal& terminal) {
  for (const v1::LabelScore& label : value.labels()) terminal.out << LabelText(label) << "  ";
  if (value.labels_size() > 0) terminal.out << OneLine(text.text) << "\n";
  for (const v1::LabeledSpan& span : value.spans()) {
    terminal.out << LabelText(span.label()) << "  " << span.begin() << "-" << span.end();
    if (form == InputForm::kText)
      terminal.out << "  " << OneLine(Characters(text.text, span.begin(), span.end()));
    terminal.out << "\n";
  }
}

}  // namespace

int Classify(Arguments& arguments, Terminal& terminal) {
  int32_t top = 1;
  bool raw = false, spans = false;
  double threshold = 0;
  arguments.Flag("top", &top, "labels to show, best first; 0: all", {0, 1 << 20});
  arguments.Flag("raw", &raw, "scores as the model gives them instead of probabilities");
  arguments.Flag("threshold", &threshold, "only what is at least so probable, 0 to 1", {0, 1});
  arguments.Flag("spans", &spans,
                 "a model that labels tokens: a span for every token, also for those without a label");
  ServerFlags server(arguments);
  TextFlags flags(arguments);
  DetailsFlags details(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;
  if (std::optional<int> wrong = details.Wrong(arguments, server, terminal)) return *wrong;
  if (raw && threshold > 0) return arguments.Excludes(terminal, "raw", "threshold", "it is of probabilities");

  TextCall<v1::ClassifyRequest, v1::ClassifyResponse> call;
  flags.Set(call.request.mutable_target(), call.request.mutable_text());
  details.Set(&call.request);
  call.request.mutable_options()->set_top(top);
  call.request.mutable_options()->set_raw_scores(raw);
  call.request.mutable_options()->set_threshold(threshold);
  call.request.mutable_options()->set_all_tokens(spans);
  call.method = &Client::Classify;
  call.add = [&](const Text& text, v1::ClassifyRequest& request) {
    return flags.ToInput(text, request.add_inputs());
  };
  call.print = [&](const Text& text, const v1::ClassifyResponse::Result& result) {
    Print(text, result.value(), flags.form, terminal);
  };
  Texts texts(arguments.texts(), flags.files, Unit::kLine, terminal);
  return AnswerTexts(server, texts, call, terminal);
}

}  // namespace heed::cli
