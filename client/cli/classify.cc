// heed classify: labels with scores, a line a text, an image or a table's row; where the model labels tokens,
// a line a span.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/csv.h"
#include "client/cli/images.h"

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

// Of labels that there are, a line with what they are of.
template <typename Labels>
void PrintLabels(const Labels& labels, std::string_view of, Terminal& terminal) {
  for (const v1::LabelScore& label : labels) terminal.out << LabelText(label) << "  ";
  if (!labels.empty()) terminal.out << OneLine(of) << "\n";
}

void Print(const Text& text, const v1::Classification& value, InputForm form, Terminal& terminal) {
  PrintLabels(value.labels(), text.text, terminal);
  for (const v1::LabeledSpan& span : value.spans()) {
    terminal.out << LabelText(span.label()) << "  " << span.begin() << "-" << span.end();
    if (form == InputForm::kText)
      terminal.out << "  " << OneLine(Characters(text.text, span.begin(), span.end()));
    terminal.out << "\n";
  }
}

// All rows of a table: they are read together.
struct WholeTable {
  std::vector<TableRow> rows;
  std::string where;
};

class WholeTables {
 public:
  explicit WholeTables(TableRows* rows) : rows_(rows) {}

  // The only one, once; none of a file without rows.
  absl::StatusOr<std::vector<WholeTable>> Next(size_t) {
    if (std::exchange(read_, true)) return std::vector<WholeTable>();
    ASSIGN_OR_RETURN(std::vector<TableRow> rows, rows_->Next(std::numeric_limits<size_t>::max()));
    if (rows.empty()) return std::vector<WholeTable>();
    std::string where = rows[0].where.substr(0, rows[0].where.rfind(':'));
    return std::vector<WholeTable>{{std::move(rows), std::move(where)}};
  }

 private:
  TableRows* rows_;
  bool read_ = false;
};

template <typename Item>
using ClassifyCall = InputCall<v1::ClassifyRequest, v1::ClassifyResponse, Item>;

int ClassifyRows(const ServerFlags& server, const Client& client, TableRows& rows,
                 const v1::ClassifyRequest& request, Terminal& terminal) {
  ClassifyCall<TableRow> call{.request = request, .method = &Client::Classify, .unit = "row"};
  call.add = [](const TableRow& row, v1::ClassifyRequest& sent) {
    *sent.add_inputs()->mutable_row() = row.row;
    return absl::OkStatus();
  };
  call.print = [&](const TableRow& row, const v1::ClassifyResponse::Result& result) {
    PrintLabels(result.value().labels(), row.where, terminal);
  };
  return AnswerAll(server, client, rows, call, terminal);
}

int ClassifyTogether(const ServerFlags& server, const Client& client, TableRows& rows,
                     const v1::ClassifyRequest& request, Terminal& terminal) {
  ClassifyCall<WholeTable> call{.request = request, .method = &Client::Classify, .unit = "row"};
  call.add = [](const WholeTable& table, v1::ClassifyRequest& sent) {
    v1::Table& message = *sent.add_inputs()->mutable_table();
    for (const TableRow& row : table.rows) *message.add_rows() = row.row;
    return absl::OkStatus();
  };
  call.print = [&](const WholeTable& table, const v1::ClassifyResponse::Result& result) {
    const v1::Classification& value = result.value();
    for (int i = 0; i < std::min(value.rows_size(), static_cast<int>(table.rows.size())); ++i)
      PrintLabels(value.rows(i).labels(), table.rows[i].where, terminal);
  };
  WholeTables tables(&rows);
  return AnswerAll(server, client, tables, call, terminal);
}

// Which table, and which of its columns are not the model's.
struct CsvFlags {
  explicit CsvFlags(Arguments& arguments) {
    arguments
        .Flag("csv", &file,
              "a table instead of texts: its first line names the model's columns, a cell without text is a "
              "missing value; - is standard input")
        .is_path = true;
    arguments.Flag("skip_column", &left_out, "of the table, which is none of the model's");
  }

  std::string file;
  std::vector<std::string> left_out;
};

int ClassifyCsv(const ServerFlags& server, const CsvFlags& csv, const v1::ClassifyRequest& request,
                Terminal& terminal) {
  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  v1::DescribeModelRequest asked;
  asked.set_model(request.target().model());
  asked.set_version(request.target().version());
  const absl::StatusOr<v1::ModelDescription> model = client->DescribeModel(asked, server.Options(terminal));
  if (!model.ok()) return FailCall(terminal, model.status(), *client, asked.model());
  if (!model->has_table_input())
    return Fail(terminal, Invalid("'", OneLine(model->model()), "' reads no tables"));
  TableRows rows(csv.file, model->table_input(), csv.left_out, terminal);
  return model->table_input().rows_meet() ? ClassifyTogether(server, *client, rows, request, terminal)
                                          : ClassifyRows(server, *client, rows, request, terminal);
}

int ClassifyImages(const ServerFlags& server, const std::vector<std::string>& names,
                   const v1::ClassifyRequest& request, Terminal& terminal) {
  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  ClassifyCall<ImageFile> call{.request = request, .method = &Client::Classify, .unit = "image"};
  call.add = [](const ImageFile& image, v1::ClassifyRequest& sent) {
    sent.add_inputs()->mutable_image()->set_encoded(image.bytes);
    return absl::OkStatus();
  };
  call.print = [&](const ImageFile& image, const v1::ClassifyResponse::Result& result) {
    PrintLabels(result.value().labels(), image.where, terminal);
  };
  ImageFiles files(names);
  return AnswerAll(server, *client, files, call, terminal);
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
  std::vector<std::string> images;
  arguments.Flag("image", &images, "a PNG or JPEG file instead of texts").is_path = true;
  CsvFlags csv(arguments);
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
  const bool texts = !arguments.texts().empty() || !flags.files.empty();
  if (texts + !images.empty() + !csv.file.empty() > 1)
    return arguments.Wrong(terminal, "texts, --image and --csv exclude each other");
  if (!images.empty()) return ClassifyImages(server, images, call.request, terminal);
  if (!csv.file.empty()) return ClassifyCsv(server, csv, call.request, terminal);
  call.method = &Client::Classify;
  call.add = [&](const Text& text, v1::ClassifyRequest& request) {
    return flags.ToInput(text, request.add_inputs());
  };
  call.print = [&](const Text& text, const v1::ClassifyResponse::Result& result) {
    Print(text, result.value(), flags.form, terminal);
  };
  Texts source(arguments.texts(), flags.files, Unit::kLine, terminal);
  return AnswerTexts(server, source, call, terminal);
}

}  // namespace heed::cli
