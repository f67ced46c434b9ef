// heed rerank: documents with scores, those first that answer the query best, a line a document.
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "client/cli/call.h"
#include "client/cli/command.h"

namespace heed::cli {
namespace {

// The exit status.
int Show(const v1::RerankResponse& response, const std::vector<Text>& documents, bool json,
         Terminal& terminal) {
  int exit_status = kDone;
  for (const v1::RerankResponse::Result& result : response.results()) {
    if (result.index() < 0 || result.index() >= static_cast<int>(documents.size())) {
      return Fail(terminal, absl::InternalError(Cat("the server has ranked document ", result.index(), " of ",
                                                    documents.size())));
    }
    const Text& document = documents[result.index()];
    if (json) terminal.out << ToJson(result) << "\n";
    if (result.has_error()) {
      TellError(terminal, document.where, result.error());
      exit_status = kFailed;
    } else if (!json) {
      terminal.out << absl::StrFormat("%.4f  %s\n", result.value().score(), OneLine(document.text));
    }
  }
  return Finish(terminal, exit_status);
}

struct RerankFlags {
  explicit RerankFlags(Arguments& arguments);
  v1::RerankRequest Request() const;  // all but the documents

  std::string model, version, query, label;
  std::vector<std::string> files;
  int32_t priority = 0, top = 0;
  bool truncate = false, raw_scores = false;
};

RerankFlags::RerankFlags(Arguments& arguments) {
  arguments.Flag("query", &query, "what the documents are to answer");
  arguments.Flag("top", &top, "only so many documents, the best; 0: all",
                 {0, std::numeric_limits<int32_t>::max()});
  arguments.Flag("label", &label,
                 "which of a model's labels says that a document is relevant; unset: its only one");
  arguments.Flag("raw_scores", &raw_scores, "logits instead of probabilities");
  arguments.Flag("model", &model, "its name; not needed where the server has only one");
  arguments.Flag("version", &version, "of the model; not needed where it has only one");
  arguments.Flag("priority", &priority, "higher is served first, -10 to 10", {-10, 10});
  arguments.Flag("file", &files, "documents, a line each; - and no text at all is standard input").is_path =
      true;
  arguments.Flag("truncate", &truncate, "cut what is longer than the model reads, instead of refusing it");
}

v1::RerankRequest RerankFlags::Request() const {
  v1::RerankRequest request;
  request.mutable_target()->set_model(model);
  request.mutable_target()->set_version(version);
  request.mutable_target()->set_priority(priority);
  request.set_query(query);
  request.mutable_text()->set_truncate(truncate);
  request.mutable_options()->set_top(top);
  request.mutable_options()->set_label(label);
  request.mutable_options()->set_raw_scores(raw_scores);
  return request;
}

// All of them: one order is of all.
absl::StatusOr<std::vector<Text>> ReadAll(Texts& texts) {
  std::vector<Text> all;
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<Text> more, texts.Next(kInputsARequest));
    if (more.empty()) return all;
    all.insert(all.end(), more.begin(), more.end());
  }
}

}  // namespace

int Rerank(Arguments& arguments, Terminal& terminal) {
  RerankFlags flags(arguments);
  ServerFlags server(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;
  if (flags.query.empty())
    return arguments.Wrong(terminal, "--query is missing: what are the documents to answer?");
  Texts texts(arguments.texts(), flags.files, Unit::kLine, terminal);
  const absl::StatusOr<std::vector<Text>> documents = ReadAll(texts);
  if (!documents.ok()) return Fail(terminal, documents.status());
  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  v1::RerankRequest request = flags.Request();
  for (const Text& document : *documents) request.add_documents(document.text);
  const auto response = client->Rerank(request, server.Options(terminal));
  if (!response.ok()) return FailCall(terminal, response.status(), *client, flags.model);
  return Show(*response, *documents, server.json, terminal);
}

}  // namespace heed::cli
