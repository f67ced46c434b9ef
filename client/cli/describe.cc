// heed describe: what a served model is, reads, answers and costs.
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/description.h"

namespace heed::cli {

int Describe(Arguments& arguments, Terminal& terminal) {
  v1::DescribeModelRequest request;
  std::string version;
  arguments.Flag("version", &version, "of the model; not needed where it has only one");
  ServerFlags server(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal, 1)) return *ended;
  if (!arguments.texts().empty()) request.set_model(arguments.texts()[0]);
  request.set_version(version);

  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  const absl::StatusOr<v1::ModelDescription> description =
      client->DescribeModel(request, server.Options(terminal));
  if (!description.ok()) return FailCall(terminal, description.status(), *client, request.model());
  terminal.out << (server.json ? ToJson(*description) + "\n" : DescriptionText(*description));
  return Finish(terminal, kDone);
}

}  // namespace heed::cli
