#include "client/cli/columns.h"

#include "absl/strings/str_format.h"
#include "client/cli/figures.h"
#include "client/cli/terminal.h"

namespace heed::cli {
namespace {

constexpr int kLongestWord = 64;

std::string Count(double number) { return absl::StrFormat("%.0f", number); }

Column WordOf(std::string_view name, std::string_view title, Key key, std::string_view help,
              std::string ModelActivity::* word) {
  return {name, title, key, help,
          Column::Word([word](const ModelActivity& model) { return OneLine(model.*word, kLongestWord); })};
}

template <typename Type>
Column NumberOf(std::string_view name, std::string_view title, Key key, std::string_view help,
                Type ModelActivity::* number, std::string (*text)(double)) {
  return {name, title, key, help, Column::Number{number, text}};
}

}  // namespace

// Letters that do something else: h, p, q, r.
const std::vector<Column>& Columns() {
  using M = ModelActivity;
  static const std::vector<Column> columns = {
      WordOf("model", "MODEL", 'm', "its name", &M::name),
      WordOf("state", "STATE", 's', "loading, ready or failed", &M::state),
      NumberOf("running", "RUN", 'n', "inputs that are worked on", &M::running, Count),
      NumberOf("waiting", "WAIT", 'w', "inputs in the queue", &M::waiting, Count),
      NumberOf("requests", "REQ/S", 'i', "inputs that ended, answered or not, a second", &M::requests,
               RateText),
      NumberOf("errors", "ERR/S", 'e', "those of them that were not answered", &M::errors, RateText),
      NumberOf("prompt", "PROMPT/S", 't', "tokens that were read, a second", &M::prompt_tokens, RateText),
      NumberOf("generated", "GEN/S", 'g', "tokens that were made, a second", &M::generated_tokens, RateText),
      NumberOf("ttft50", "TTFT50", 'f', "from an input's submission to its first token, median",
               &M::first_token_p50, SecondsText),
      NumberOf("ttft95", "TTFT95", 'F', "the same, of 95 in 100 at most", &M::first_token_p95, SecondsText),
      NumberOf("latency50", "LAT50", 'l', "from a request's arrival to an input's answer, median",
               &M::latency_p50, SecondsText),
      NumberOf("latency95", "LAT95", 'L', "the same, of 95 in 100 at most", &M::latency_p95, SecondsText),
      NumberOf("queue95", "QUEUE95", 'u', "time in the queue, of 95 in 100 at most", &M::queue_p95,
               SecondsText),
      NumberOf("memory", "MEMORY", 'b', "that running inputs have reserved for their state", &M::state_bytes,
               BytesText),
  };
  return columns;
}

std::string CellOf(const Column& column, const ModelActivity& model) {
  if (const auto* word = std::get_if<Column::Word>(&column.what)) return (*word)(model);
  const Column::Number& number = std::get<Column::Number>(column.what);
  const Figure figure = number.of(model);
  return figure ? number.text(*figure) : "-";
}

bool Before(const Column& column, const ModelActivity& one, const ModelActivity& other) {
  if (const auto* word = std::get_if<Column::Word>(&column.what)) return (*word)(one) < (*word)(other);
  const Column::Number& number = std::get<Column::Number>(column.what);
  return number.of(one).value_or(-1) > number.of(other).value_or(-1);
}

}  // namespace heed::cli
