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
  if (!server.json) terminal.out << SummaryText(list->models());
  for (int i = 0; server.json && i < list->models_size(); ++i)
    terminal.out << ToJson(list->models(i)) << "\n";
  return Finish(terminal, kDone);
}

}  // namespace heed::cli
