// heed models: what a server has, a line a model.
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/description.h"

namespace heed::cli {

int Models(Arguments& arguments, Terminal& terminal) {
  ServerFlags server(arguments);
  if (std::optional<int> ended = arguments.Parse(terminal, 0)) return *ended;

  const absl::StatusOr<Client> client = server.Connect();
  if (!client.ok()) return Fail(terminal, client.status());
  const absl::StatusOr<v1::ListModelsResponse> list = client->ListModels(server.Options(terminal));
  if (!list.ok()) return FailCall(terminal, list.status(), *client);
  for (const v1::ModelSummary& model : list->models())
    terminal.out << (server.json ? ToJson(model) + "\n" : SummaryText(model));
  return Finish(terminal, kDone);
}

}  // namespace heed::cli
